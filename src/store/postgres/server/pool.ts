// The connections to a server: made as needed, checked once when new, then given back or ended.

import type { Socket } from 'node:net'
import pg from 'pg'
import { shownAddress } from '../../address.ts'
import { impatient } from './cut-silent-connection.ts'
import { destinationOf } from './destination.ts'
import { notPostgres, refusedAs } from './error-words.ts'
import { HEARD_BYTES_MAX } from './foreign-answer.ts'
import { holdInUse } from './in-use.ts'
import { migrationStates, SCHEMA } from './migrate.ts'
import { settle } from './session-settings.ts'
import { CONNECT_MAX_MS, SILENCE } from './timeouts.ts'

const CONNECTIONS_MAX = 10

/** Integers are bigint, whatever their size: as SQLite's rows are read. */
const INTEGERS = [pg.types.builtins.INT8, pg.types.builtins.INT4, pg.types.builtins.INT2] as number[]
const TYPES = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    INTEGERS.includes(oid) ? BigInt : pg.types.getTypeParser(oid, format),
}

export type Pool = pg.Pool

type Config = pg.ClientConfig & { address: string }
type Wire = { stream: Socket; attachListeners: (stream: Pick<Socket, 'on'>) => void }

/** The driver throws at an unknown answer, where nobody can catch it; here, that ends the connection instead. */
class Client extends pg.Client {
  protected readonly wire: Wire
  /** How the first answer begins; empty while there is none. */
  protected heard: Uint8Array = new Uint8Array()
  constructor({ address, ...rest }: Config) {
    super({ ...rest, ...destinationOf(address) })
    this.wire = (this as unknown as { connection: Wire }).connection
    this.wire.stream.once('data', (answer: Buffer) => {
      this.heard = Uint8Array.from(answer.subarray(0, HEARD_BYTES_MAX))
    })
    const attach = this.wire.attachListeners.bind(this.wire)
    this.wire.attachListeners = (stream) => {
      const guarded = (listen: (value: unknown) => void) => (value: unknown) => {
        try {
          listen(value)
        } catch (error) {
          this.wire.stream.destroy(error as Error)
        }
      }
      attach({ on: (event: string, listen: never) => stream.on(event, guarded(listen)) } as never)
    }
  }

  /** Why it could not connect, as a Problem where that is known only of a connection which never was. */
  refusal(error: unknown, address: string): unknown {
    return notPostgres(error, this.heard, shownAddress(address)) ?? refusedAs(error, shownAddress(address))
  }
}

/**
 * Closes its socket when it cannot connect. The driver leaves it open when it has no password to give, and the process
 * would stay as long as the server waits for one: a minute.
 */
class PooledClient extends Client {
  constructor(config?: pg.ClientConfig) {
    super(config as Config)
    const { address } = config as Config
    const connect = super.connect.bind(this) as (told: Told) => void
    // Only in the form in which a pool calls it.
    this.connect = ((told: Told) => {
      const tell: Told = (error) => {
        if (error) this.wire.stream.destroy()
        told(error && (this.refusal(error, address) as Error))
      }
      try {
        connect(tell)
      } catch (error) {
        // An impossible host name throws: the pool would not hear of that, and would wait.
        tell(error as Error)
      }
    }) as typeof this.connect
  }
}
type Told = (error?: Error) => void

/** `schema` differs only for a database under construction. */
export function openPool(url: string, { max = CONNECTIONS_MAX, schema = SCHEMA } = {}): Pool {
  const place: Place = { url, schema, isOwn: false }
  const pool = new pg.Pool({
    ...CONNECTING,
    address: url,
    max,
    // One stays open even while nobody calls, and holds the lock that marks the database as in use (in-use.ts).
    min: 1,
    pipeline: true,
    Client: PooledClient,
    // A process that has nothing left to do ends.
    allowExitOnIdle: true,
    onConnect: (client: pg.ClientBase) => prepare(client, place),
  } as pg.PoolConfig)
  // Without a listener the end of an idle connection would end the process.
  pool.on('error', () => {})
  return pool
}

/**
 * A connection for the caller alone, without pipelining: tables are copied over it, however long that takes. Its schema
 * need not be one that this program knows.
 */
export async function openAlone(url: string, { schema = SCHEMA } = {}): Promise<pg.Client> {
  const client = plainClient(url)
  try {
    await client.connect().catch((error) => Promise.reject(client.refusal(error, url)))
    await makeOurs(client, client, { url, schema, isOwn: false })
    await client.query('set statement_timeout = 0; set idle_in_transaction_session_timeout = 0')
    return client
  } catch (error) {
    await client.end().catch(() => {})
    throw error
  }
}

const CONNECTING = {
  application_name: 'tranche',
  connectionTimeoutMillis: CONNECT_MAX_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: SILENCE.idle * 1_000,
  types: TYPES,
}

function plainClient(url: string): Client {
  const client = new Client({ ...CONNECTING, address: url })
  client.on('error', () => {})
  return client
}

/** `isOwn` is true once it is known that each of its connections has a session of its own. */
type Place = { url: string; schema: string; isOwn: boolean }

/**
 * Prepares a new connection, and refuses a server that cannot keep what it is given, or whose schema is newer than this
 * program.
 */
async function prepare(client: pg.ClientBase, place: Place): Promise<void> {
  client.on('error', () => {})
  const asked = impatient(client)
  await makeOurs(client, asked, place)
  if (place.schema === SCHEMA) await holdInUse(asked)
  // Throws schema_newer: another host may have been upgraded since this process began.
  await migrationStates(asked)
}

type Asked = Pick<pg.ClientBase, 'query'>

/**
 * Prepares a session. The first one that comes through a pool is checked from a second connection: if the pool gives
 * out its sessions per transaction, both have the same one, or, while others use it, the first has now this one and now
 * that.
 */
async function makeOurs(client: pg.ClientBase, asked: Asked, place: Place): Promise<void> {
  const of = { server: shownAddress(place.url), schema: place.schema }
  const { isPooled, staysItself } = await settle(client, asked, of)
  if (isPooled && !place.isOwn) {
    const other = plainClient(place.url)
    try {
      await other.connect()
      await settle(other, impatient(other), of)
      await staysItself()
    } finally {
      other.end().catch(() => {})
    }
  }
  place.isOwn = true
}
