// The connections to a server: made as needed, checked once when new, then returned or ended.

import pg from 'pg'
import { shownAddress } from '../../address.ts'
import { explaining, refusedAs } from './errors.ts'
import { holdInUse } from './locks.ts'
import { migrationStates, SCHEMA } from './migrate.ts'
import { type Asked, Client, CONNECT_MAX_MS, firstColumn, impatient, SILENCE, settle } from './session.ts'

const CONNECTIONS_MAX = 10

/** Integers are bigint, whatever their size: as SQLite's rows are read. */
const INTEGERS = [pg.types.builtins.INT8, pg.types.builtins.INT4, pg.types.builtins.INT2] as number[]
const TYPES = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    INTEGERS.includes(oid) ? BigInt : pg.types.getTypeParser(oid, format),
}

export type Pool = pg.Pool

/** Closes its socket when it cannot connect: without a password, the driver keeps it, and the process, for a minute. */
class PooledClient extends Client {
  constructor(config?: pg.ClientConfig) {
    const { address } = config as pg.ClientConfig & { address: string }
    super({ ...config, address })
    const connect = super.connect.bind(this) as (callback: Connected) => void
    // Only in the form that a pool calls.
    this.connect = ((callback: Connected) => {
      const answer: Connected = (error) => {
        if (error) this.socket.destroy()
        callback(error && refusedAs(error, shownAddress(address)))
      }
      try {
        connect(answer)
      } catch (error) {
        // An impossible host name throws: the pool would not hear of that, and would wait.
        answer(error as Error)
      }
    }) as typeof this.connect
  }
}
type Connected = (error?: Error) => void

/** `schema` differs only for a database under construction. */
export function openPool(url: string, { max = CONNECTIONS_MAX, schema = SCHEMA } = {}): Pool {
  const place: Place = { url, schema, isOwn: false }
  const pool = new pg.Pool({
    ...CONNECTING,
    address: url,
    max,
    // One stays open even without calls, and holds the lock that marks the database as in use (locks.ts).
    min: 1,
    pipeline: true,
    Client: PooledClient,
    // A process with nothing left to do ends.
    allowExitOnIdle: true,
    onConnect: (client: pg.ClientBase) => prepare(client, place),
  } as pg.PoolConfig)
  // Without a listener the end of an idle connection would end the process.
  pool.on('error', () => {})
  return pool
}

/** For the caller alone, without pipelining or a time limit. The schema need not be one that this program knows. */
export async function openAlone(url: string, { schema = SCHEMA } = {}): Promise<pg.Client> {
  const client = plainClient(url)
  try {
    await client.connect().catch((error) => Promise.reject(refusedAs(error, shownAddress(url))))
    await makeOurs(client, client, { url, schema, isOwn: false })
    await client.query('set statement_timeout = 0; set idle_in_transaction_session_timeout = 0')
    return client
  } catch (error) {
    await client.end().catch(() => {})
    throw error
  }
}

/** Runs `work` on a connection of its own, whose end rolls back anything uncommitted. Explains errors. */
export const onServer = <T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> =>
  explaining(shownAddress(url), async () => {
    const client = await openAlone(url)
    try {
      return await work(client)
    } finally {
      await client.end().catch(() => {})
    }
  })

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

/** `isOwn` is true once each connection is known to have a session of its own. */
type Place = { url: string; schema: string; isOwn: boolean }

/** Refuses a server that cannot store all values, or whose schema is newer than this program. */
async function prepare(client: pg.ClientBase, place: Place): Promise<void> {
  client.on('error', () => {})
  const asked = impatient(client)
  await makeOurs(client, asked, place)
  if (place.schema === SCHEMA) await holdInUse(asked)
  // Throws schema_newer: another host may have been upgraded since this process began.
  await migrationStates(asked)
}

/**
 * Prepares a session. The first one through a pool is checked from a second connection: if the pool assigns its
 * sessions per transaction, both have the same one, or, while others use it, the first alternates between sessions.
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

// Connections to a server are few, and a tenant whose calls all wait for something would take them all. A tenant takes
// one only while more are free than it already holds. So the first tenant with a crowd of calls gets about half, the
// next one half of the rest, and a tenant that has none gets one. Background work never takes the last connection, nor
// a tenant the last two, so a key can always be looked up at once.

/** A tenant, `unknown` while its key is being looked up, or `none` for background work: passes, metrics. */
export type Whose = number | 'unknown' | 'none'

/** How many connections each kind leaves free for more urgent kinds. */
const LEAVES = { tenant: 2, none: 1, unknown: 0 }

type Places = {
  /**
   * Resolves when a connection may be used, with a function that returns its place. The calls of each tenant wait in a
   * line of their own, and the lines take turns. Throws the error of `refusal` when nobody in its line was admitted for
   * `stillMaxMs`.
   */
  take(whose: Whose): Promise<() => void>
}

type PlaceOptions = { max: number; stillMaxMs: number; refusal: () => Error }

type Waiting = { goOn: () => void; refuse: () => void }
type Line = { waiting: Waiting[]; timer: NodeJS.Timeout }

export function createPlaces({ max, stillMaxMs, refusal }: PlaceOptions): Places {
  const held = new Map<Whose, number>()
  /** In the order of their turns; none is empty. */
  const lines = new Map<Whose, Line>()
  let free = max

  function mayTake(whose: Whose): boolean {
    const left = free - Math.min(LEAVES[typeof whose === 'number' ? 'tenant' : whose], max - 1)
    // A pass holds one session and needs others to make progress, so background work is not limited to a share.
    return left > (whose === 'none' ? 0 : (held.get(whose) ?? 0))
  }

  function count(whose: Whose, by: 1 | -1): void {
    free -= by
    const now = (held.get(whose) ?? 0) + by
    if (now === 0) held.delete(whose)
    else held.set(whose, now)
  }

  /** Takes a place; the function that it returns gives it back, once. */
  function taken(whose: Whose): () => void {
    count(whose, 1)
    let isOut = false
    return () => {
      if (isOut) return
      isOut = true
      count(whose, -1)
      letIn()
    }
  }

  /** Admits everyone who may go on now, one from each line in turn. */
  function letIn(): void {
    for (let whose = lines.keys().find(mayTake); whose !== undefined; whose = lines.keys().find(mayTake)) {
      const line = lines.get(whose)
      lines.delete(whose)
      const first = line?.waiting.shift()
      // This line now goes last.
      if (line && line.waiting.length > 0) {
        lines.set(whose, line)
        line.timer.refresh()
      } else clearTimeout(line?.timer)
      first?.goOn()
    }
  }

  function lineOf(whose: Whose): Line {
    const known = lines.get(whose)
    if (known) return known
    const waiting: Waiting[] = []
    const timer = setTimeout(() => {
      lines.delete(whose)
      for (const { refuse } of waiting) refuse()
    }, stillMaxMs)
    // A call with a place has a connection, which keeps the process alive.
    timer.unref()
    const line = { waiting, timer }
    lines.set(whose, line)
    return line
  }

  return {
    take(whose) {
      if (!lines.has(whose) && mayTake(whose)) return Promise.resolve(taken(whose))
      return new Promise((resolve, reject) => {
        lineOf(whose).waiting.push({
          goOn: () => resolve(taken(whose)),
          refuse: () => reject(refusal()),
        })
      })
    },
  }
}

/** A standby that is there answers within milliseconds. */
const HELD_BACK = `select current_setting('synchronous_standby_names') from pg_stat_activity
  where usename = current_user and datname = current_database() and wait_event = 'SyncRep'
    and state_change < clock_timestamp() - interval '3 seconds' limit 1`

/** In words, if a standby has delayed a commit of this user for some seconds; otherwise null. */
export const heldBackFor = (url: string, server: string): Promise<string | null> =>
  onServer(url, async (client) => {
    const [names] = await firstColumn<string>(client, HELD_BACK)
    if (names === undefined) return null
    return `${server} waits for a standby before it answers (synchronous_standby_names = ${names}), and none that counts has answered yet; still waiting`
  })
