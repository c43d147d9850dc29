// PostgreSQL's errors as Problems that say what to do, and the errors after which a transaction is tried again.

import { Problem, type ProblemCode, reasonInWords } from '../../../core/problem.ts'
import { codeOf, isLost, isSilence, isTaken, isTransient, OutcomeUnknown, Silence } from './failures.ts'

/**
 * The problem by SQLSTATE and message, or by the code and the message of the driver or of Node; the first match counts.
 * Where the message decides, the next entry is true too: a server may speak another language.
 */
const MEANINGS: [ProblemCode, Record<string, string>][] = [
  [
    'database_locked',
    {
      '^(55P03|40P01|40001)': 'The database {server} stayed locked by others for too long: run it again.',
      '^57014':
        '{server} did not finish in time ({error}): see what keeps it busy in pg_stat_activity, and run it again.',
      '^53300':
        '{server} has no connection left for this user ({error}): raise that limit (max_connections, or the CONNECTION LIMIT of the role or the database), or end what holds them.',
      'timeout exceeded when trying to connect':
        'No connection to {server} was free or could be made in time: run it again.',
    },
  ],
  ['database_not_found', { '^3D000': '{server}: {error}: create it with createdb, or name another one.' }],
  [
    'database_damaged',
    {
      '^(3F000|42(P01|P10|703|883|704))':
        'The schema of {server} is not what the migrations of this program make ({error}): if it was upgraded, upgrade this host too; otherwise put back what was changed, or restore a backup.',
      '^XX00[12]': '{server} is damaged ({error}): stop writing to it, and restore a backup.',
    },
  ],
  [
    'storage_failed',
    {
      '^28.*pg_hba\\.conf':
        '{server} accepts no such connection from here ({error}): add a line to its pg_hba.conf, or ask for TLS with sslmode=verify-full in the address if it requires that.',
      '^28':
        '{server} does not let this user in ({error}): give the right user and password in TRANCHE_DB, or the password in ~/.pgpass.',
      '^42501 .*row-level':
        '{server}: {error}: tranche must see every row of its tables, so ALTER TABLE ... NO FORCE ROW LEVEL SECURITY, and connect as their owner.',
      '^42501 .* database ':
        '{server}: {error}: tranche connects there and needs a schema of its own, so let the owner of the database GRANT CONNECT, CREATE ON DATABASE to its user.',
      '^42501':
        '{server}: {error}: connect as the user that owns the schema tranche, and give it all rights to everything in it.',
      '^25006':
        '{server} takes no writes ({error}): name the primary, and a user whose default_transaction_read_only is off.',
      // A statement that this session has not prepared, or already has: the session has changed.
      '^(26000|42P05)':
        '{server} is behind a pool that gives one session to several connections ({error}): tranche needs one in session mode (in PgBouncer, pool_mode = session).',
      '^55000': '{server} cannot be used ({error}): name another one.',
      '^53400':
        'A limit of {server} was reached ({error}), so the work in progress is not recorded: raise it.',
      '^5[38]':
        'The disk or the memory of {server} is full or has failed ({error}), so the work in progress is not recorded: make room there.',
      'SASL: .*password':
        '{server} asks for a password: put it into the address in TRANCHE_DB, or into ~/.pgpass.',
      'does not support SSL':
        '{server} refuses TLS, which sslmode asks for: set its ssl to on, or leave sslmode out.',
      '^(ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)':
        'The certificate of {server} is for another name ({error}): name the host as its certificate does.',
      '^(ERR_(TLS|SSL|OSSL|CRYPTO)_|CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|INVALID_)':
        'There is no safe connection to {server} ({error}): name its certificate authority with sslrootcert=FILE in the address.',
    },
  ],
]
const HANGS = '{server} hangs, or the network to it is cut ({error}): fix that, and run it again.'
const UNREACHABLE =
  '{server} cannot be reached ({error}): start it, or name another one in --db or TRANCHE_DB.'
const REFUSES =
  '{server} lets nobody in ({error}): check that PostgreSQL answers at this host and port, and the options in its address or in PGOPTIONS.'

/** An error of the server as a Problem that names it; any other unchanged. `server` is without a password. */
export function explained(error: unknown, server: string): unknown {
  if (error instanceof Problem || !(error instanceof Error)) return error
  const message = messageOf(error)
  for (const [code, meanings] of MEANINGS)
    for (const [is, words] of Object.entries(meanings))
      if (new RegExp(is).test(`${codeOf(error)} ${message}`)) return problem(code, words, { server, message })
  if (error instanceof OutcomeUnknown)
    return new Problem(
      'storage_failed',
      `${server} ${isSilence(error.cause) ? 'did not answer a commit, as it does while it waits for a standby that is away' : 'went away in the middle of a commit'}, and it is not known whether that was recorded: check before you do it again.`,
    )
  const words = error instanceof Silence ? HANGS : isLost(error) ? UNREACHABLE : null
  return words === null ? error : problem('storage_failed', words, { server, message })
}

/** The error when all connections of this process were in use for too long. */
export const noneFree = (server: string): Error =>
  explained(new Error('timeout exceeded when trying to connect'), server) as Error

/** An error with which a connection could not be made, naming the server. */
export function refusedAs(error: Error, server: string): Error {
  const known = explained(error, server) as Error
  return known === error ? problem('storage_failed', REFUSES, { server, message: messageOf(error) }) : known
}

const problem = (
  code: ProblemCode,
  words: string,
  { server, message }: { server: string; message: string },
) =>
  new Problem(
    code,
    words.replace(/\{(server|error)\}/g, (_, is) => (is === 'server' ? server : message)),
  )

/**
 * The message of an error. If an address has an IPv4 and an IPv6 side, the error has a code and no message. After a
 * semicolon Node names an option of its own, which the executable does not take.
 */
const messageOf = (error: Error): string =>
  error.message === '' || 'syscall' in error || /^ERR_(OSSL|SSL)_/.test(codeOf(error))
    ? reasonInWords(error)
    : error.message.replace(/; if .*|\.$/, '')

/** Runs `work`, and explains the errors of the server. */
export async function explaining<T>(server: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw explained(error, server)
  }
}

/** How often a transaction is tried in all, when others prevented it or its server went away. */
const TRIES_MAX = 3
const PAUSE_MS = 50

/** Tries again while nothing was done and a try costs little. Explains the error of the last try. */
export async function tryAgain<T>(server: string, work: () => Promise<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await work()
    } catch (error) {
      const isWorthwhile = isTransient(error) || (isLost(error) && !isSilence(error))
      if (tried === TRIES_MAX || !isWorthwhile) throw explained(error, server)
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * tried))
    }
  }
}

/** Repeats a write, once, when another transaction has just added its row: the decision then sees that row. */
export const onceMore = <T>(write: () => Promise<T>): Promise<T> =>
  write().catch((error) => (isTaken(error) ? write() : Promise.reject(error)))
