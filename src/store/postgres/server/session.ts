// What a session is set to before anything else, whatever its role, its database, its server or its address say; and
// which servers are refused, because they would not keep what they are given.

import type { ClientBase } from 'pg'
import { Problem } from '../../../core/problem.ts'
import { IDLE_TRANSACTION_MAX_MS, LOCK_WAIT_MAX_MS, STATEMENT_MAX_MS } from './limits.ts'

/**
 * A host that loses power does not close its connections. What its sessions hold is released after half a minute of
 * silence.
 */
export const SILENCE = { idle: 15, interval: 5, count: 3 }

const SETTINGS = {
  lock_timeout: LOCK_WAIT_MAX_MS,
  statement_timeout: STATEMENT_MAX_MS,
  idle_in_transaction_session_timeout: IDLE_TRANSACTION_MAX_MS,
  // A session that only holds a lock stays silent for as long as the work takes.
  idle_session_timeout: 0,
  tcp_keepalives_idle: SILENCE.idle,
  tcp_keepalives_interval: SILENCE.interval,
  tcp_keepalives_count: SILENCE.count,
  default_transaction_isolation: 'read committed',
  // A commit that somebody has cancelled says so in a warning, which a higher level would suppress (commit.ts).
  client_min_messages: 'warning',
  // With a lower value, some numbers are read back as different ones.
  extra_float_digits: 1,
  // With `off`, a null in an array of texts would be written as the word.
  array_nulls: 'on',
  standard_conforming_strings: 'on',
  // Makes a statement fail if a policy hides rows: a ledger with hidden rows would add up to something else.
  row_security: 'off',
  // Statements here take milliseconds. Compiling one takes a hundred.
  jit: 'off',
}

/** A mark that we leave in each session. If it is already in a new one, the session is shared with somebody. */
const MARK = 'tranche.session'

// The path is set before any name is looked up: the role's own path may lead to functions of the same names.
const settingsFor = (schema: string): string => `set search_path to ${schema};
  select pg_is_in_recovery() as standby, current_setting('synchronous_commit') as commits,
    current_setting('server_version_num')::int8 as version, current_setting('server_encoding') as encoding,
    current_setting('session_replication_role') as replication, pg_backend_pid()::int8 as pid,
    coalesce(current_setting('${MARK}', true), '') as mark,
    coalesce(has_schema_privilege(to_regnamespace('${schema}'), 'usage'), true) as open,
    ${Object.entries(SETTINGS)
      .map(([name, value]) => `set_config('${name}', '${value}', false)`)
      .join(', ')},
    case when current_setting('server_version_num')::int8 >= 170000
      then set_config('transaction_timeout', '0', false) end,
    -- What waits for less than the disk of the standby that is asked for is as if there were none.
    case when current_setting('synchronous_commit') in ('local', 'remote_write')
      then set_config('synchronous_commit', 'on', false) end,
    set_config('${MARK}', 'in use', false)`

/**
 * Sets up a session and checks its server. Returns whether there is something between this process and the server;
 * `staysItself` throws when that gives this connection another session from one statement to the next.
 */
export async function settle(
  client: ClientBase,
  asked: Pick<ClientBase, 'query'>,
  { server, schema }: { server: string; schema: string },
): Promise<{ isPooled: boolean; staysItself: () => Promise<void> }> {
  const answers = await asked.query(settingsFor(schema))
  const [, said] = answers as unknown as { rows: (Seen & { pid: bigint })[] }[]
  const seen = said?.rows[0]
  if (!seen) throw new Error('the server said nothing of itself')
  refuseUnfit(seen, server)
  // A pool makes up process numbers of its own.
  return {
    isPooled: BigInt((client as unknown as { processID: number }).processID) !== seen.pid,
    async staysItself() {
      for (let i = 0; i < ASKS; i++) {
        const { rows } = await asked.query('select pg_backend_pid()::int8 as pid')
        if ((rows[0] as { pid: bigint }).pid !== seen.pid) throw shared(server)
      }
    },
  }
}

/** How often: while others keep the sessions of a pool busy, a statement may by chance come to the one before. */
const ASKS = 5

const SHARED =
  'is behind a pool that gives one session to several connections: tranche needs one in session mode (in PgBouncer, pool_mode = session)'

const shared = (server: string): Problem => new Problem('storage_failed', `${server} ${SHARED}.`)

/** What a server says of itself, and of the session. */
export type Seen = {
  standby: boolean
  commits: string
  version: bigint
  encoding: string
  replication: string
  mark: string
  open: boolean
}

export function refuseUnfit(seen: Seen, server: string): void {
  const why = UNFIT.find(({ is }) => is(seen))
  if (why) throw new Problem('storage_failed', `${server} ${why.words(seen)}.`)
}

const UNFIT: { is: (seen: Seen) => boolean; words: (seen: Seen) => string }[] = [
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
    words: () => 'checks no references and no seal for this user: set its session_replication_role to origin',
  },
  {
    is: ({ mark }) => mark !== '',
    words: () => SHARED,
  },
  {
    is: ({ open }) => !open,
    words: () =>
      'has a schema tranche that this user may not use: connect as its owner, or let the owner GRANT USAGE ON SCHEMA tranche',
  },
]
