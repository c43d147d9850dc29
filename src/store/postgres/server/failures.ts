// The kinds of errors of PostgreSQL, its driver and the network: whether anything was done, and whether to try again.

import pg from 'pg'

/** Node's code of an error, or SQLSTATE; empty for one that has none. */
export const codeOf = (error: unknown): string => String((error as NodeJS.ErrnoException)?.code ?? '')

/** SQLSTATE of an error that the server sent; empty for any other. */
const sqlState = (error: unknown): string => (error instanceof pg.DatabaseError ? codeOf(error) : '')

/** Whether a unique index has refused a row: somebody else was first, and the decision has to be made again. */
export const isTaken = (error: unknown): boolean => sqlState(error) === '23505'

/** Whether a conflict with other transactions is the cause, and nothing was done: trying again may succeed. */
export const isTransient = (error: unknown): boolean => ['40P01', '40001'].includes(sqlState(error))

/** Whether there was no room for something. */
export const isDiskFull = (error: unknown): boolean => sqlState(error) === '53100'

/** Whether the values of a row are the cause: without that row, the transaction would have succeeded. */
export const isRowsFault = (error: unknown): boolean => /^2[23]/.test(sqlState(error))

/** Whether an error concerns the whole database, and not one of its rows. */
export const isOutage = (error: unknown): boolean =>
  isLost(error) || (sqlState(error) !== '' && !isRowsFault(error))

/** A server that did not answer in time, on a connection that was then cut. */
export class Silence extends Error {
  constructor(ms: number) {
    super(`no answer in ${ms / 1000} s`)
  }
}

/** Whether a server has not answered in time, by our count or by the driver's. */
export const isSilence = (error: unknown): boolean =>
  error instanceof Silence ||
  (error instanceof Error && /^Query read timeout$|connection timeout$|^timeout expired$/.test(error.message))

/** The outcome of a commit is not known, so it must not be tried again. */
export class OutcomeUnknown extends Error {
  constructor(why: unknown) {
    super('an outcome that is not known', { cause: why })
  }
}

/** A commit that the server answered with a rollback. */
export class Undone extends Error {}

/** Whether the server itself says that a transaction is undone. After any other end of a commit, nobody knows. */
export const isUndone = (error: unknown): boolean =>
  error instanceof Undone || (sqlState(error) !== '' && !isLost(error))

/** The system calls with which Node reaches another process. */
const CALLS = ['connect', 'getaddrinfo', 'read', 'write', 'shutdown']
const LOST =
  /Connection (terminated|ended)|connection error and is not queryable|after calling end on the pool/

/** Whether the connection is gone, or the server accepts no work: all that was not committed is undone. */
export function isLost(error: unknown): boolean {
  if (isSilence(error)) return true
  const state = sqlState(error)
  if (state !== '') return /^(08|57P0|53300|25006|25P03)/.test(state)
  if (!(error instanceof Error)) return false
  const { syscall } = error as NodeJS.ErrnoException
  // Where Node tried several addresses it names no call.
  return (
    (syscall ? CALLS.includes(syscall) : /^E(?!RR_)[A-Z]/.test(codeOf(error))) || LOST.test(error.message)
  )
}
