// The connections to a server: made as they are needed, looked at once when they are new, given back or ended.

import type { Socket } from 'node:net'
import pg from 'pg'
import { Problem } from '../../../core/problem.ts'
import { shownAddress } from '../../address.ts'
import { migrationStates, SCHEMA } from './migrate.ts'

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

/**
 * Closes its socket when it cannot connect. The driver leaves it open when it has no password to give, and the process
 * would stay as long as the server waits for one: a minute.
 */
class Client extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super(config)
    const connect = super.connect.bind(this) as (told: Told) => void
    // In the only form in which a pool calls it.
    this.connect = ((told: Told) =>
      connect((error) => {
        if (error) (this as unknown as { connection: { stream: Socket } }).connection.stream.destroy()
        told(error)
      })) as typeof this.connect
  }
}
type Told = (error?: Error) => void

export function openPool(url: string, { max = CONNECTIONS_MAX } = {}): Pool {
  const pool = new pg.Pool({
    connectionString: verifying(url),
    max,
    pipeline: true,
    Client,
    application_name: 'tranche',
    connectionTimeoutMillis: CONNECT_MAX_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: SILENCE.idle * 1_000,
    // A process that has nothing left to do ends.
    allowExitOnIdle: true,
    types: TYPES as never,
    onConnect: (client: pg.ClientBase) => prepare(client, shownAddress(url)),
  } as pg.PoolConfig)
  // Without a listener the end of an idle connection would end the process.
  pool.on('error', () => {})
  return pool
}

/**
 * The driver checks the server's certificate whenever an address asks for TLS, and warns that a later version of it may
 * not. We ask for it in the word that will go on meaning that.
 */
const verifying = (url: string): string =>
  url.replace(/([?&]sslmode=)(prefer|require|verify-ca)(?=&|$)/, '$1verify-full')

/** Set by a statement: what an address says of them goes before what comes with the connection. */
const SETTINGS = {
  search_path: SCHEMA,
  lock_timeout: LOCK_WAIT_MAX_MS,
  statement_timeout: STATEMENT_MAX_MS,
  idle_in_transaction_session_timeout: IDLE_TRANSACTION_MAX_MS,
  tcp_keepalives_idle: SILENCE.idle,
  tcp_keepalives_interval: SILENCE.interval,
  tcp_keepalives_count: SILENCE.count,
  default_transaction_isolation: 'read committed',
  // Statements here take milliseconds. Compiling one takes a hundred.
  jit: 'off',
}
const PREPARE = `select pg_is_in_recovery() as standby, current_setting('synchronous_commit') as commits,
  current_setting('server_version_num')::int8 as version,
  ${Object.entries(SETTINGS)
    .map(([name, value]) => `set_config('${name}', '${value}', false)`)
    .join(', ')}`

/** Makes a new connection ours, and refuses a server that cannot keep what it is given, or knows more than we. */
async function prepare(client: pg.ClientBase, server: string): Promise<void> {
  client.on('error', () => {})
  const { rows } = await client.query({ text: PREPARE, query_timeout: CONNECT_MAX_MS } as pg.QueryConfig)
  refuseUnfit(rows[0], server)
  // Throws schema_newer: another host may have been upgraded since this process began.
  await migrationStates(client)
}

/** What a server says of itself. */
export type Seen = { standby: boolean; commits: string; version: bigint }

/** A standby, a server that answers before its disk has, an old one. */
export function refuseUnfit({ standby, commits, version }: Seen, server: string): void {
  const refused = standby
    ? 'is a standby, which takes no writes: name the primary'
    : commits === 'off'
      ? 'answers before a commit is on disk: set its synchronous_commit to on'
      : version < 150_000n
        ? 'is older than PostgreSQL 15: upgrade it'
        : null
  if (refused) throw new Problem('storage_failed', `${server} ${refused}.`)
}
