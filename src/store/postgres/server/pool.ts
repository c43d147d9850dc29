// The connections to a server: made as they are needed, looked at once when they are new, given back or ended.

import pg from 'pg'
import { Problem } from '../../../core/problem.ts'
import { shownAddress } from '../../address.ts'

/** The tables are in a schema of their own: the database may be somebody else's too, and a copy takes its place whole. */
export const SCHEMA = 'tranche'
/** How long a statement waits for a lock, or for its own end, before it gives up: as long as on a file. */
const LOCK_WAIT_MAX_MS = 15_000
const STATEMENT_MAX_MS = 60_000
/** A transaction that its process has forgotten holds its locks for so long. */
const IDLE_TRANSACTION_MAX_MS = 10_000
const CONNECT_MAX_MS = 10_000
/** A host that lost its power says no goodbye. What its sessions hold is free after half a minute of silence. */
const SILENCE = { idle: 15, interval: 5, count: 3 }
const CONNECTIONS_MAX = 10

/** Integers are bigint, whatever their size: as SQLite's rows are read. */
const INTEGERS = [pg.types.builtins.INT8, pg.types.builtins.INT4, pg.types.builtins.INT2] as number[]
const TYPES = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    INTEGERS.includes(oid) ? BigInt : pg.types.getTypeParser(oid, format),
}

export type Pool = pg.Pool

export function openPool(url: string, { max = CONNECTIONS_MAX } = {}): Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    pipeline: true,
    application_name: 'tranche',
    connectionTimeoutMillis: CONNECT_MAX_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: SILENCE.idle * 1_000,
    // A process that has nothing left to do ends.
    allowExitOnIdle: true,
    types: TYPES as never,
    options: [
      `-c search_path=${SCHEMA}`,
      `-c lock_timeout=${LOCK_WAIT_MAX_MS}`,
      `-c statement_timeout=${STATEMENT_MAX_MS}`,
      `-c idle_in_transaction_session_timeout=${IDLE_TRANSACTION_MAX_MS}`,
      `-c tcp_keepalives_idle=${SILENCE.idle}`,
      `-c tcp_keepalives_interval=${SILENCE.interval}`,
      `-c tcp_keepalives_count=${SILENCE.count}`,
      '-c default_transaction_isolation=read\\ committed',
      // Statements here take milliseconds. Compiling one takes a hundred.
      '-c jit=off',
    ].join(' '),
    onConnect: (client: pg.ClientBase) => refuseUnfit(client, shownAddress(url)),
  } as pg.PoolConfig)
  // Without a listener the end of an idle connection would end the process.
  pool.on('error', () => {})
  return pool
}

/** Refuses a server that cannot keep what it is given: a standby, an old one, one that answers before its disk has. */
async function refuseUnfit(client: pg.ClientBase, server: string): Promise<void> {
  client.on('error', () => {})
  const { rows } = await client.query(
    `select pg_is_in_recovery() as standby, current_setting('synchronous_commit') as commits,
       current_setting('server_version_num')::int8 as version`,
  )
  const { standby, commits, version } = rows[0] as { standby: boolean; commits: string; version: bigint }
  const refused = standby
    ? 'is a standby, which takes no writes: name the primary'
    : commits === 'off'
      ? 'answers before a commit is on disk: set synchronous_commit to on'
      : version < 150_000n
        ? 'is older than PostgreSQL 15'
        : null
  if (refused) throw new Problem('storage_failed', `${server} ${refused}.`)
}
