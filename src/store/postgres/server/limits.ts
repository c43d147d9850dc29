// How long anything may take at a server.

/** How long a statement waits for a lock, or for its own end, before the server gives it up: as long as on a file. */
export const LOCK_WAIT_MAX_MS = 15_000
export const STATEMENT_MAX_MS = 60_000
/** A transaction that its process has forgotten holds its locks for so long. */
export const IDLE_TRANSACTION_MAX_MS = 10_000
/** How long anybody waits for a connection, new or in use by others. */
export const CONNECT_MAX_MS = 10_000

/** What an answer may take on its way, and a server that is busy. */
const SLACK_MS = 5_000

/** How long a process waits for an answer; null for as long as it takes. */
export type Patience = number | null
export const PATIENCE = {
  /** With what ends by itself. */
  work: STATEMENT_MAX_MS + SLACK_MS,
  /** With what somebody's call waits for: the longest of it is a lock. */
  call: LOCK_WAIT_MAX_MS + SLACK_MS,
  /** With a commit. Were it as long as a statement, a server that waits for a standby would give up, and tell of a success. */
  commit: LOCK_WAIT_MAX_MS + SLACK_MS,
  /** With what is asked on a connection before anything else. */
  first: CONNECT_MAX_MS,
} as const
