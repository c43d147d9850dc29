// What PostgreSQL's errors mean: a sentence for whoever reads them, and what may be tried again.

import pg from 'pg'
import { Problem, type ProblemCode } from '../../../core/problem.ts'

/** SQLSTATE of an error that the server sent; null for any other. */
export const sqlState = (error: unknown): string | null =>
  error instanceof pg.DatabaseError ? (error.code ?? null) : null

/** Whether a unique index has refused a row: somebody else was first, and a decision has to be made again. */
export const isTaken = (error: unknown): boolean => sqlState(error) === '23505'

/** Whether rows or the order of locks are to blame, and nothing was done: the same again may succeed. */
export const isTransient = (error: unknown): boolean => ['40P01', '40001'].includes(sqlState(error) ?? '')

/** Errors of sockets and name servers, as Node calls them. */
const OF_SOCKETS = /^(E(CONN|PIPE|HOST|NET|TIMEDOUT|AI_AGAIN)|ENOTFOUND|ENOENT|EACCES)/
/** Node's words for a certificate that it does not trust. */
const OF_CERTIFICATES = /^(ERR_TLS_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/

const codeOf = (error: unknown): string => String((error as NodeJS.ErrnoException)?.code ?? '')

/** A server that was waited for in vain, on a connection that was cut then. */
export class Silence extends Error {
  constructor(ms: number) {
    super(`no answer in ${ms / 1000} s`)
  }
}

/** Whether somebody has waited for a server until it was too long. */
export const isSilence = (error: unknown): boolean =>
  error instanceof Silence || (error instanceof Error && WAITED.test(error.message))

/** What the driver and the pool say then. */
const WAITED = /^Query read timeout$|connection timeout$/

/** Whether the connection is gone, or the server takes no work: what was under way is undone unless it was committed. */
export function isLost(error: unknown): boolean {
  if (isSilence(error)) return true
  const state = sqlState(error)
  if (state !== null) return /^(08|57P0)/.test(state) || ['53300', '25006', '25P03'].includes(state)
  if (!(error instanceof Error)) return false
  return OF_SOCKETS.test(codeOf(error)) || LOST.test(error.message)
}

const LOST =
  /Connection (terminated|ended)|connection error and is not queryable|after calling end on the pool/
/** What the pool says when none of its connections was free, or none could be made, in time. */
const NONE_FREE = /timeout exceeded when trying to connect/

/** What a database says that has moved to another place (../copying/seal.ts). */
export const SEALED_STATE = 'TS001'
const SEALED = new RegExp(`^${SEALED_STATE}$`)

type Meaning = { is: RegExp; code: ProblemCode; words: (server: string, message: string) => string }

/** By SQLSTATE; the first that fits. */
const MEANINGS: Meaning[] = [
  {
    is: /^55P03$/,
    code: 'database_locked',
    words: (server) => `The database ${server} stayed locked by others for too long: run it again.`,
  },
  {
    is: /^57014$/,
    code: 'database_locked',
    words: (server, message) =>
      `${server} was not done in time (${message}): see what keeps it busy in pg_stat_activity, and run it again.`,
  },
  {
    is: /^53300$/,
    code: 'database_locked',
    words: (server) => `${server} has no connection left: raise its max_connections, or end what holds them.`,
  },
  {
    is: SEALED,
    code: 'database_sealed',
    words: (_, message) => `${message}.`,
  },
  {
    is: /^3D000$/,
    code: 'database_not_found',
    words: (server, message) => `${server}: ${message}: make it with createdb, or name another one.`,
  },
  {
    is: /^28/,
    code: 'storage_failed',
    words: (server, message) =>
      `${server} does not let this user in (${message}): give the right user and password in TRANCHE_DB, or the password in ~/.pgpass.`,
  },
  {
    is: /^42501$/,
    code: 'storage_failed',
    words: (server, message) =>
      `${server}: ${message}: tranche needs a schema of its own there, so let the owner of the database GRANT CREATE ON DATABASE to its user.`,
  },
  {
    is: /^25006$/,
    code: 'storage_failed',
    words: (server, message) =>
      `${server} takes no writes (${message}): name the primary, or set its default_transaction_read_only to off.`,
  },
  {
    is: /^(53|58)/,
    code: 'storage_failed',
    words: (server, message) =>
      `The disk or the memory of ${server} is full or fails (${message}), so what was under way is not recorded: make room there.`,
  },
  {
    is: /^XX00[12]$/,
    code: 'database_damaged',
    words: (server, message) =>
      `${server} is damaged (${message}): stop writing to it, and restore a backup.`,
  },
]

/** That all connections of this process were in use for too long. */
export const noneFree = (server: string): Problem =>
  new Problem(
    'database_locked',
    `No connection to ${server} was free or could be made in time: run it again.`,
  )

/** An error of the server as a Problem that names it; any other as it is. `server` is the address without a password. */
export function explained(error: unknown, server: string): unknown {
  if (error instanceof Problem || !(error instanceof Error)) return error
  const state = sqlState(error)
  // An address with an IPv4 and an IPv6 side fails with an error that has a code and no message.
  const message = (error.message || codeOf(error)).replace(/\.$/, '')
  const meaning = MEANINGS.find(({ is }) => state !== null && is.test(state))
  if (meaning) return new Problem(meaning.code, meaning.words(server, message))
  if (NONE_FREE.test(message)) return noneFree(server)
  if ((error as NodeJS.ErrnoException).syscall === 'open')
    return new Problem(
      'storage_failed',
      `A file that the address of ${server} names cannot be read (${message}): put the right one into it.`,
    )
  if (error instanceof Silence)
    return new Problem(
      'storage_failed',
      `${server} hangs, or the network to it is cut (${message}): see to it, and run it again.`,
    )
  if (isLost(error))
    return new Problem(
      'storage_failed',
      `${server} cannot be reached (${message}): start it, or name another one in --db or TRANCHE_DB.`,
    )
  if (/^SASL: .*password/.test(message))
    return new Problem(
      'storage_failed',
      `${server} asks for a password: put it into the address in TRANCHE_DB, or into ~/.pgpass.`,
    )
  if (/not support SSL connections/.test(message))
    return new Problem(
      'storage_failed',
      `${server} does not speak TLS, which sslmode asks for: set its ssl to on, or leave sslmode out.`,
    )
  if (OF_CERTIFICATES.test(codeOf(error)))
    return new Problem(
      'storage_failed',
      `There is no safe connection to ${server} (${message}): name its certificate authority with ?sslrootcert=FILE.`,
    )
  return error
}

/** Whether there was no room for something. */
export const isDiskFull = (error: unknown): boolean => sqlState(error) === '53100'

/** Whether the values of a row are to blame: without it, its transaction would have succeeded. */
export const isRowsFault = (error: unknown): boolean => /^2[23]/.test(sqlState(error) ?? '')

/** Whether an error concerns the whole database, and not one of its rows. */
export const isOutage = (error: unknown): boolean =>
  isLost(error) || (sqlState(error) !== null && !isRowsFault(error))
