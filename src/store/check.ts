// The check of the whole database: what is wrong in it, and what may become so.

import type { Finding } from '../core/findings.ts'
import type { Instant } from '../core/instant.ts'
import type { Environment } from '../core/partner.ts'

/**
 * Something wrong in the file or the ledger: where, and what. `next` is a command for it, where it is not one of the
 * usual ones.
 */
export type Fault = { kind: string; subject: string; message: string; next?: readonly string[] }

export interface CheckStore {
  /** Integrity, foreign keys and every ledger rule, recomputed from executions and trades. */
  findFaults(): Promise<Fault[]>
  /**
   * What is not wrong but needs a look: everything that is found at a glance, and what takes more reading. That is of
   * live environments, and of what concerns everybody. Of test environments it is the fills with odd figures,
   * which is where integrators mistake units and times; what a developer leaves undone there is nobody's alarm.
   */
  findWarnings(environment?: Environment): Promise<Finding[]>
}

/** One look of the check at what may become wrong. */
export type Look = (clock: () => Promise<Instant>) => Promise<Finding[]>
