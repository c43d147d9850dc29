// How long anything may take at a server.

/** How long a statement waits for a lock, or for its own end, before the server gives it up: as long as on a file. */
export const LOCK_WAIT_MAX_MS = 15_000
export const STATEMENT_MAX_MS = 60_000
/** The same for one that reads all of a month or lists every plan that is due: a hundred million rows take minutes. */
export const LARGE_STATEMENT_MAX_MS = 10 * 60_000
/** How long a transaction that its process has forgotten holds its locks. */
export const IDLE_TRANSACTION_MAX_MS = 10_000
/** How long anybody waits for a connection, new or in use by others. */
export const CONNECT_MAX_MS = 10_000
/**
 * A host that loses power does not close its connections. What its sessions hold is released after half a minute of
 * silence.
 */
export const SILENCE = { idle: 15, interval: 5, count: 3 }

/** Allowance for the network, and for a busy server. */
const SLACK_MS = 5_000

/** How long a process waits for an answer; null for as long as it takes. */
export type Patience = number | null
export const PATIENCE = {
  /** For what ends by itself. */
  work: STATEMENT_MAX_MS + SLACK_MS,
  large: LARGE_STATEMENT_MAX_MS + SLACK_MS,
  /** For what a call waits for: the longest wait is for a lock. */
  call: LOCK_WAIT_MAX_MS + SLACK_MS,
  /**
   * For a commit. If it were as long as for a statement, a server that waits for a standby would give up and report
   * success.
   */
  commit: LOCK_WAIT_MAX_MS + SLACK_MS,
  /** For what is asked on a new connection before anything else. */
  first: CONNECT_MAX_MS,
} as const
