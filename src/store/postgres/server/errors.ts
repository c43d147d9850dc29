// PostgreSQL's errors as Problems that say what to do, and after which of them a transaction is tried again.

import pg from 'pg'
import { Problem, type ProblemCode } from '../../../core/problem.ts'

/** Node's error codes for a certificate that it does not trust, or that is not a certificate at all. */
const OF_CERTIFICATES =
  /^(ERR_TLS_|ERR_SSL_|ERR_OSSL_|ERR_CRYPTO_|CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_|INVALID_)/

/** The pool's message when no connection was free, or none could be made, in time. */
const NONE_FREE = /timeout exceeded when trying to connect/

/** The driver's messages about an answer that it cannot read, and about a login method that it does not support. */
const IS_NO_SERVER = /^received invalid response|error establishing an SSL connection/
const ASKS_OTHERWISE = /^Unknown auth|^SASL: /

/** `says` must match the message as well; for a server that speaks another language, the next entry applies. */
type Meaning = {
  is: RegExp
  says?: RegExp
  code: ProblemCode
  words: (server: string, message: string) => string
}

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
      `${server} did not finish in time (${message}): see what keeps it busy in pg_stat_activity, and run it again.`,
  },
  {
    is: /^53300$/,
    code: 'database_locked',
    words: (server, message) =>
      `${server} has no connection left for this user (${message}): raise that limit (max_connections, or the CONNECTION LIMIT of the role or the database), or end what holds them.`,
  },
  {
    is: /^3D000$/,
    code: 'database_not_found',
    words: (server, message) => `${server}: ${message}: create it with createdb, or name another one.`,
  },
  {
    is: /^28/,
    says: /pg_hba\.conf/,
    code: 'storage_failed',
    words: (server, message) =>
      `${server} accepts no such connection from here (${message}): add a line to its pg_hba.conf, or ask for TLS with sslmode=verify-full in the address if it requires that.`,
  },
  {
    is: /^28/,
    code: 'storage_failed',
    words: (server, message) =>
      `${server} does not let this user in (${message}): give the right user and password in TRANCHE_DB, or the password in ~/.pgpass.`,
  },
  {
    is: /^42501$/,
    says: /row-level/,
    code: 'storage_failed',
    words: (server, message) =>
      `${server}: ${message}: tranche must see every row of its tables, so ALTER TABLE ... NO FORCE ROW LEVEL SECURITY, and connect as their owner.`,
  },
  {
    is: /^42501$/,
    says: / database /,
    code: 'storage_failed',
    words: (server, message) =>
      `${server}: ${message}: tranche connects there and needs a schema of its own, so let the owner of the database GRANT CONNECT, CREATE ON DATABASE to its user.`,
  },
  {
    is: /^42501$/,
    code: 'storage_failed',
    words: (server, message) =>
      `${server}: ${message}: connect as the user that owns the schema tranche, and give it all rights to everything in it.`,
  },
  {
    is: /^25006$/,
    code: 'storage_failed',
    words: (server, message) =>
      `${server} takes no writes (${message}): name the primary, and a user whose default_transaction_read_only is off.`,
  },
  {
    // Also the message of a pool when the session is another one by now.
    is: /^(26000|42P05)$/,
    code: 'storage_failed',
    words: (server, message) => `${server} ${SHARED_SESSIONS.what} (${message}): ${SHARED_SESSIONS.remedy}.`,
  },
  {
    is: /^(3F000|42(P01|P10|703|883|704))$/,
    code: 'database_damaged',
    words: (server, message) =>
      `The schema of ${server} is not what the migrations of this program make (${message}): if it was upgraded, upgrade this host too; otherwise put back what was changed, or restore a backup.`,
  },
  {
    is: /^55000$/,
    code: 'storage_failed',
    words: (server, message) => `${server} cannot be used (${message}): name another one.`,
  },
  {
    is: /^53400$/,
    code: 'storage_failed',
    words: (server, message) =>
      `${server} allows this user too little (${message}), so what was under way is not recorded: raise that limit.`,
  },
  {
    is: /^(53|58)/,
    code: 'storage_failed',
    words: (server, message) =>
      `The disk or the memory of ${server} is full or has failed (${message}), so what was under way is not recorded: make room there.`,
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

/**
 * An error of the server as a Problem that names it; any other as it is. `server` is the address without a password.
 */
export function explained(error: unknown, server: string): unknown {
  if (error instanceof Problem || !(error instanceof Error)) return error
  const state = sqlState(error)
  // An address with an IPv4 and an IPv6 side fails with an error that has a code and no message.
  const message = (error.message || codeOf(error)).replace(/\.$/, '')
  const meaning = MEANINGS.find(
    ({ is, says }) => state !== null && is.test(state) && (says?.test(message) ?? true),
  )
  if (meaning) return new Problem(meaning.code, meaning.words(server, message))
  if (NONE_FREE.test(message)) return noneFree(server)
  if (error instanceof OutcomeUnknown) {
    const what = isSilence(error.cause)
      ? 'did not answer a commit, as it does while it waits for a standby that is away'
      : 'went away in the middle of a commit'
    return new Problem(
      'storage_failed',
      `${server} ${what}, and it is not known whether that was recorded: check before you do it again.`,
    )
  }
  if (error instanceof Silence)
    return new Problem(
      'storage_failed',
      `${server} hangs, or the network to it is cut (${message}): fix that, and run it again.`,
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
      `What answers at ${server} refuses TLS, which sslmode asks for: check the host and the port; if it is PostgreSQL, set its ssl to on, or leave sslmode out.`,
    )
  if (IS_NO_SERVER.test(message)) return noServer(server, message)
  if (ASKS_OTHERWISE.test(message))
    return new Problem(
      'storage_failed',
      `${server} asks this user to log in in a way that tranche does not support (${message}): give it scram-sha-256 in its pg_hba.conf.`,
    )
  if (['ERR_TLS_CERT_ALTNAME_INVALID', 'HOSTNAME_MISMATCH'].includes(codeOf(error)))
    return new Problem(
      'storage_failed',
      `The certificate of ${server} is for another name (${message}): name the host as its certificate does.`,
    )
  if (OF_CERTIFICATES.test(codeOf(error)))
    return new Problem(
      'storage_failed',
      // After the semicolon Node names an option of its own, which the executable does not take.
      `There is no safe connection to ${server} (${message.replace(/; if .*/, '')}): name its certificate authority with sslrootcert=FILE in the address.`,
    )
  return error
}

const noServer = (server: string, message: string): Problem =>
  new Problem(
    'storage_failed',
    `What answers at ${server} is not PostgreSQL, or has no TLS (${message}): check the host and the port.`,
  )

/** The error of a server that lets nobody in, as a Problem, where nothing more is known. */
export function refusedAs(error: unknown, server: string): unknown {
  if (!(error instanceof Error) || explained(error, server) !== error) return error
  const { message } = error
  // The driver stumbles over the answer of another program in ways of its own.
  if (sqlState(error) === null) return noServer(server, message)
  return new Problem(
    'storage_failed',
    `${server} refuses the connection (${message}): see the options in its address, or in PGOPTIONS.`,
  )
}

/** Runs `work`, and explains the errors of the server. */
export async function explaining<T>(server: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw explained(error, server)
  }
}

// The kinds of errors of PostgreSQL, its driver and the network: whether anything was done, and whether to try again.

/** SQLSTATE of an error that the server sent; null for any other. */
const sqlState = (error: unknown): string | null =>
  error instanceof pg.DatabaseError ? (error.code ?? null) : null

/** Whether a unique index has refused a row: somebody else was first, and the decision has to be made again. */
export const isTaken = (error: unknown): boolean => sqlState(error) === '23505'

/** Whether a conflict with other transactions is to blame, and nothing was done: trying again may succeed. */
const isTransient = (error: unknown): boolean => ['40P01', '40001'].includes(sqlState(error) ?? '')

/** The system calls with which Node reaches another process: whatever error they return, it was not reached. */
const OF_SOCKETS = ['connect', 'getaddrinfo', 'read', 'write', 'shutdown']
/** The same where Node tried several addresses, and does not say which call failed. */
const UNREACHED = /^(E(CONN|PIPE|HOST|NET|TIMEDOUT|ADDR|AI_|PERM|AGAIN|ACCES)|ENOTFOUND|ENOENT)/

/** Node's code of an error; empty for one that has none. */
const codeOf = (error: unknown): string => String((error as NodeJS.ErrnoException)?.code ?? '')

/** A server that was waited for in vain, on a connection that was then cut. */
export class Silence extends Error {
  constructor(ms: number) {
    super(`no answer in ${ms / 1000} s`)
  }
}

/** Whether a server has not answered in time. */
const isSilence = (error: unknown): boolean =>
  error instanceof Silence || (error instanceof Error && WAITED.test(error.message))

/**
 * It is unknown whether a transaction was committed, so it must not be tried again. `why` is what ended its connection.
 */
export class OutcomeUnknown extends Error {
  constructor(why: unknown) {
    super('an outcome that is not known', { cause: why })
  }
}

/** A commit that the server has answered with another word. */
export class Undone extends Error {}

/**
 * Whether the server itself reports that a transaction whose commit was sent is undone. After any other end, such as an
 * answer that the driver cannot read, its outcome is unknown.
 */
export const isUndone = (error: unknown): boolean =>
  error instanceof Undone || (sqlState(error) !== null && !isLost(error))

/** The messages of the driver and the pool when there was no answer in time. */
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

// Servers that are refused, because they would not keep what they are given, or are not what they seem.

const SHARED_SESSIONS = {
  what: 'is behind a pool that gives one session to several connections',
  remedy: 'tranche needs one in session mode (in PgBouncer, pool_mode = session)',
}

const sharesSessions = (): string => `${SHARED_SESSIONS.what}: ${SHARED_SESSIONS.remedy}`

export const sharedSessions = (server: string): Problem => unfit(server, sharesSessions())

const unfit = (server: string, why: string): Problem => new Problem('storage_failed', `${server} ${why}.`)

/** The state of a server and of the session. */
export type SessionState = {
  standby: boolean
  commits: string
  version: bigint
  encoding: string
  replication: string
  mark: string
  open: boolean
}

export function refuseUnfit(session: SessionState, server: string): void {
  const why = UNFIT.find(({ is }) => is(session))
  if (why) throw unfit(server, why.words(session))
}

const UNFIT: { is: (session: SessionState) => boolean; words: (session: SessionState) => string }[] = [
  {
    is: ({ standby }) => standby,
    words: () => 'is a standby, which takes no writes: name the primary',
  },
  {
    is: ({ commits }) => commits === 'off',
    words: () => 'answers before a commit is on disk: set its synchronous_commit to on',
  },
  {
    is: ({ version }) => version < 150_000n,
    words: () => 'is older than PostgreSQL 15: upgrade it',
  },
  {
    is: ({ encoding }) => encoding !== 'UTF8',
    words: ({ encoding }) =>
      `stores its text as ${encoding}, not as UTF-8: create the database with createdb --encoding UTF8 --template template0`,
  },
  {
    is: ({ replication }) => replication !== 'origin',
    words: () => 'checks no references for this user: set its session_replication_role to origin',
  },
  {
    is: ({ mark }) => mark !== '',
    words: sharesSessions,
  },
  {
    is: ({ open }) => !open,
    words: () =>
      'has a schema tranche that this user may not use: connect as its owner, or let the owner GRANT USAGE ON SCHEMA tranche',
  },
]

// Trying a transaction again: when others made it impossible, when its server went away, when it lost a race.

/** How often a transaction is tried in all, when others made it impossible or its server went away. */
const TRIES_MAX = 3
const PAUSE_MS = 50

/** Tries again while nothing was done and a try costs little. Explains the error of the last try. */
export async function tryAgain<T>(server: string, work: () => Promise<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await work()
    } catch (error) {
      if (tried === TRIES_MAX || !mayTryAgain(error)) throw explained(error, server)
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * tried))
    }
  }
}

const mayTryAgain = (error: unknown): boolean => isTransient(error) || (isLost(error) && !isSilence(error))

/**
 * Repeats a write, once, when another transaction has just added the row that it would add: its decision then sees that
 * row.
 */
export async function onceMore<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (!isTaken(error)) throw error
    return write()
  }
}
