// What a session is set to before anything else, whatever its role, its database, its server or its address say.

import type { ClientBase } from 'pg'
import { IDLE_TRANSACTION_MAX_MS, LOCK_WAIT_MAX_MS, SILENCE, STATEMENT_MAX_MS } from './timeouts.ts'
import { refuseUnfit, type Seen, sharedSessions } from './unfit-servers.ts'

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
        if ((rows[0] as { pid: bigint }).pid !== seen.pid) throw sharedSessions(server)
      }
    },
  }
}

/** How often: while others keep the sessions of a pool busy, a statement may by chance come to the one before. */
const ASKS = 5
