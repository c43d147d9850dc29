// The check of the whole database: what is wrong in it, and what may become so.

/** Something the check found: where, and what is wrong with it. */
export type Finding = { kind: string; subject: string; message: string }

export interface CheckStore {
  /** Integrity, foreign keys and every ledger rule, recomputed from executions and trades. */
  findFaults(): Promise<Finding[]>
  /** What is not wrong but needs a look: keys that end, ticks that stopped, executions nobody confirms, open files. */
  findWarnings(): Promise<Finding[]>
}
