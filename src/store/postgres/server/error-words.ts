// What PostgreSQL's errors mean, in a sentence that says what to do.

import { Problem, type ProblemCode } from '../../../core/problem.ts'
import { codeOf, isLost, isSilence, OutcomeUnknown, Silence, sqlState } from './error-kinds.ts'
import { foreignAnswer } from './foreign-answer.ts'
import { SHARED_SESSIONS } from './unfit-servers.ts'

/** Node's error codes for a certificate that it does not trust, or that is not a certificate at all. */
const OF_CERTIFICATES =
  /^(ERR_TLS_|ERR_SSL_|ERR_OSSL_|ERR_CRYPTO_|CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_|INVALID_)/

/** What the pool says when none of its connections was free, or none could be made, in time. */
const NONE_FREE = /timeout exceeded when trying to connect/

/**
 * What the driver says about an answer that makes no sense to it, and about a login method that it does not support.
 */
const IS_NO_SERVER = /^received invalid response|error establishing an SSL connection/
const ASKS_OTHERWISE = /^Unknown auth|^SASL: /

/** The code that a database which has moved answers with (../copying/seal.ts). */
export const SEALED_STATE = 'TS001'
const SEALED = new RegExp(`^${SEALED_STATE}$`)

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
    is: SEALED,
    code: 'database_sealed',
    words: (_, message) => `${message}.`,
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
    // Also what a pool says when the session is a different one by now.
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
  if (IS_NO_SERVER.test(message))
    return new Problem(
      'storage_failed',
      `What answers at ${server} is not PostgreSQL, or has no TLS (${message}): check the host and the port.`,
    )
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

/** The error of a server that lets nobody in, as a Problem, where nothing more is known. */
export function refusedAs(error: unknown, server: string): unknown {
  if (sqlState(error) === null || explained(error, server) !== error) return error
  const { message } = error as Error
  return new Problem(
    'storage_failed',
    `${server} refuses the connection (${message}): see the options in its address, or in PGOPTIONS.`,
  )
}

/** The error of a connection whose first answer, `heard`, is seen to be another program's; null for any other. */
export function notPostgres(error: unknown, heard: Uint8Array, server: string): Problem | null {
  const program = sqlState(error) === null ? foreignAnswer(heard) : null
  if (program === null) return null
  return new Problem(
    'storage_failed',
    `What answers at ${server} is not PostgreSQL but ${program}: check the host and the port.`,
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
