// What kind of error PostgreSQL, its driver or the network has thrown: whether anything was done, and whether to try
// again.

import pg from 'pg'

/** SQLSTATE of an error that the server sent; null for any other. */
export const sqlState = (error: unknown): string | null =>
  error instanceof pg.DatabaseError ? (error.code ?? null) : null

/** Whether a unique index has refused a row: somebody else was first, and the decision has to be made again. */
export const isTaken = (error: unknown): boolean => sqlState(error) === '23505'

/** Whether a conflict with other transactions is to blame, and nothing was done: trying again may succeed. */
export const isTransient = (error: unknown): boolean => ['40P01', '40001'].includes(sqlState(error) ?? '')

/** The system calls with which Node reaches another process: whatever error they return, it was not reached. */
const OF_SOCKETS = ['connect', 'getaddrinfo', 'read', 'write', 'shutdown']
/** The same where Node tried several addresses, and does not say which call failed. */
const UNREACHED = /^(E(CONN|PIPE|HOST|NET|TIMEDOUT|ADDR|AI_|PERM|AGAIN|ACCES)|ENOTFOUND|ENOENT)/

/** Node's code of an error; empty for one that has none. */
export const codeOf = (error: unknown): string => String((error as NodeJS.ErrnoException)?.code ?? '')

/** A server that was waited for in vain, on a connection that was then cut. */
export class Silence extends Error {
  constructor(ms: number) {
    super(`no answer in ${ms / 1000} s`)
  }
}

/** Whether a server has not answered in time. */
export const isSilence = (error: unknown): boolean =>
  error instanceof Silence || (error instanceof Error && WAITED.test(error.message))

/**
 * Nobody can tell whether a transaction was committed: it must not be tried again. `why` is what has ended its
 * connection.
 */
export class OutcomeUnknown extends Error {
  constructor(why: unknown) {
    super('an outcome that is not known', { cause: why })
  }
}

/** A commit that the server has answered with another word. */
export class Undone extends Error {}

/**
 * Whether it is the server that says that a transaction whose commit was sent is undone. Whatever else has ended one,
 * such as an answer that the driver cannot read, says nothing of what became of it.
 */
export const isUndone = (error: unknown): boolean =>
  error instanceof Undone || (sqlState(error) !== null && !isLost(error))

/** What the driver and the pool say when there was no answer in time. */
const WAITED = /^Query read timeout$|connection timeout$|^timeout expired$/

/**
 * Whether the connection is gone, or the server accepts no work: what was under way is undone unless it was committed.
 */
export function isLost(error: unknown): boolean {
  if (isSilence(error)) return true
  const state = sqlState(error)
  if (state !== null) return /^(08|57P0)/.test(state) || ['53300', '25006', '25P03'].includes(state)
  if (!(error instanceof Error)) return false
  const { syscall } = error as NodeJS.ErrnoException
  const isOfSocket = syscall === undefined ? UNREACHED.test(codeOf(error)) : OF_SOCKETS.includes(syscall)
  return isOfSocket || LOST.test(error.message)
}

const LOST =
  /Connection (terminated|ended)|connection error and is not queryable|after calling end on the pool/

/** Whether there was no room for something. */
export const isDiskFull = (error: unknown): boolean => sqlState(error) === '53100'

/** Whether the values of a row are to blame: without that row, the transaction would have succeeded. */
export const isRowsFault = (error: unknown): boolean => /^2[23]/.test(sqlState(error) ?? '')

/** Whether an error concerns the whole database, and not one of its rows. */
export const isOutage = (error: unknown): boolean =>
  isLost(error) || (sqlState(error) !== null && !isRowsFault(error))
