// The connections to a server: made as they are needed, looked at once when they are new, given back or ended.

import type { Socket } from 'node:net'
import pg from 'pg'
import { Problem } from '../../../core/problem.ts'
import { shownAddress } from '../../address.ts'
import { impatient } from './answer-timeout.ts'
import { holdInUse } from './in-use.ts'
import { CONNECT_MAX_MS, IDLE_TRANSACTION_MAX_MS, LOCK_WAIT_MAX_MS, STATEMENT_MAX_MS } from './limits.ts'
import { migrationStates, SCHEMA } from './migrate.ts'

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

/** `schema` is another one only for a database in the making. */
export function openPool(url: string, { max = CONNECTIONS_MAX, schema = SCHEMA } = {}): Pool {
  const pool = new pg.Pool({
    ...connectingTo(url),
    max,
    // One stays however long nobody calls, and holds the lock of those that use the database (in-use.ts).
    min: 1,
    pipeline: true,
    Client,
    // A process that has nothing left to do ends.
    allowExitOnIdle: true,
    onConnect: (client: pg.ClientBase) => prepare(client, { server: shownAddress(url), schema }),
  } as pg.PoolConfig)
  // Without a listener the end of an idle connection would end the process.
  pool.on('error', () => {})
  return pool
}

/**
 * A connection that is nobody else's, without pipelining: tables are copied over it, which takes as long as it takes. It
 * need not be of a schema that this program knows.
 */
export async function openAlone(url: string, { schema = SCHEMA } = {}): Promise<pg.Client> {
  const client = new pg.Client(connectingTo(url) as pg.ClientConfig)
  client.on('error', () => {})
  try {
    await client.connect()
    await settle(client, { server: shownAddress(url), schema })
    await client.query("set client_encoding to 'UTF8'; set statement_timeout = 0")
    await client.query('set idle_in_transaction_session_timeout = 0')
    return client
  } catch (error) {
    await client.end().catch(() => {})
    throw error
  }
}

const connectingTo = (url: string): object => ({
  connectionString: verifying(url),
  application_name: 'tranche',
  connectionTimeoutMillis: CONNECT_MAX_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: SILENCE.idle * 1_000,
  types: TYPES,
})

/**
 * The driver checks the server's certificate whenever an address asks for TLS, and warns that a later version of it may
 * not. We ask for it in the word that will go on meaning that.
 */
const verifying = (url: string): string =>
  url.replace(/([?&]sslmode=)(prefer|require|verify-ca)(?=&|$)/, '$1verify-full')

/** Set by a statement, which goes before anything that an address, a role or the server says of them. */
const SETTINGS = {
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
const prepareFor = (
  schema: string,
): string => `select pg_is_in_recovery() as standby, current_setting('synchronous_commit') as commits,
  current_setting('server_version_num')::int8 as version,
  ${Object.entries({ ...SETTINGS, search_path: schema })
    .map(([name, value]) => `set_config('${name}', '${value}', false)`)
    .join(', ')}`

/** Makes a new connection ours, and refuses a server that cannot keep what it is given, or knows more than we. */
async function prepare(client: pg.ClientBase, of: { server: string; schema: string }): Promise<void> {
  client.on('error', () => {})
  const asked = impatient(client)
  await settle(asked, of)
  if (of.schema === SCHEMA) await holdInUse(asked)
  // Throws schema_newer: another host may have been upgraded since this process began.
  await migrationStates(asked)
}

async function settle(
  client: Pick<pg.ClientBase, 'query'>,
  { server, schema }: { server: string; schema: string },
): Promise<void> {
  const { rows } = await client.query(prepareFor(schema))
  refuseUnfit(rows[0], server)
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
