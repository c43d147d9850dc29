// A process that contains the program, and that can be told to die at one of its calls to the database, or to lose a
// connection there.

import { flushCompileCache } from 'node:module'
import SQLite from 'better-sqlite3'
import pg from 'pg'
import { openInMemory } from '../../../src/store/sqlite/file/connection.ts'
import type { Death, Deed } from '../action.ts'
import type { FiredSeen, LateSeen, Lines, Seen } from '../observed.ts'
import { firedAfter, lateAfter } from '../system/deeds.ts'
import { accessTo, type Place } from '../system/place.ts'
import { hostHere } from '../system/system.ts'

export type Secrets = [label: string, of: { keyId: string; secret: string }][]
/** The cause of an end: a signal ends the process, one of the others a connection. */
export type Trouble = { death: Death; by: 'signal' | Fate }
/** Whether a connection was lost, and with it the answer to a commit. */
export type Severed = { inCommit: boolean }
export type Ask =
  | { ask: 'open'; place: Place; seed: number; start: number; secrets: Secrets; trouble: Trouble | null }
  | { ask: 'perform'; deed: Deed; trouble: Trouble | null }
  | { ask: 'firstFault' | 'record' | 'close' }
  | { ask: 'news'; execution: string | null; late: number }
export type Told =
  | { told: 'opened' | 'closed' }
  | { told: 'seen'; seen: Seen; severed: Severed | null; secrets: Secrets }
  /** A connection was lost, and with it the work in progress. */
  | { told: 'failed'; severed: Severed; message: string }
  | { told: 'firstFault'; fault: string | null }
  | { told: 'record'; record: Lines }
  | { told: 'news'; fired: FiredSeen[]; late: LateSeen[] }
  | { told: 'threw'; message: string }

let trouble: Trouble | null = null
let severed: Severed | null = null
let host: Awaited<ReturnType<typeof hostHere>> | undefined
let messages: Messages | undefined

/** Whether this is the place of the trouble. A signal cannot be caught, and nothing after it runs. */
function isHere(isCommit: boolean): boolean {
  if (!trouble || (trouble.death.of === 'commits' && !isCommit)) return false
  trouble.death.at -= 1
  if (trouble.death.at > 0) return false
  if (trouble.by === 'signal') process.kill(process.pid, 'SIGKILL')
  return true
}

function fateAt(point: Point, isCommit: boolean): Fate | null {
  const by = trouble?.by
  if (!isHere(isCommit) || by === undefined || by === 'signal') return null
  severed = { inCommit: isCommit && point !== 'unsent' }
  trouble = null
  return by
}

async function watch(place: Place): Promise<void> {
  if (place.store === 'postgres') messages = await watchMessages(place.server, fateAt)
  else watchCalls(isHere)
}

// Written now, because nothing runs after a kill.
flushCompileCache()
process.on('message', async (ask: Ask) => {
  try {
    process.send?.(await answer(ask))
  } catch (error) {
    process.send?.({ told: 'threw', message: (error as Error).stack ?? String(error) } satisfies Told)
  }
})

async function answer(ask: Ask): Promise<Told> {
  if (ask.ask === 'open') {
    const { place, seed, start, secrets } = ask
    await watch(place)
    trouble = ask.trouble
    host = await hostHere({ access: accessTo(place), seed, start, secrets: new Map(secrets) })
    trouble = null
    return { told: 'opened' }
  }
  if (!host) throw new Error('nothing is open')
  switch (ask.ask) {
    case 'perform':
      return perform(ask, host)
    case 'firstFault':
      return { told: 'firstFault', fault: await host.firstFault() }
    case 'record':
      return { told: 'record', record: await host.record() }
    case 'news': {
      const store = host.system.store()
      return {
        told: 'news',
        fired: await firedAfter(store, ask.execution),
        late: await lateAfter(store, ask.late),
      }
    }
    case 'close':
      await host.close()
      return { told: 'closed' }
  }
}

async function perform(
  { deed, ...ask }: Extract<Ask, { ask: 'perform' }>,
  { perform, system }: NonNullable<typeof host>,
): Promise<Told> {
  trouble = ask.trouble
  severed = null
  try {
    const seen = await perform(deed)
    return { told: 'seen', seen, severed, secrets: [...system.secrets] }
  } catch (error) {
    const lost = severed as Severed | null
    if (!lost) throw error
    return { told: 'failed', severed: lost, message: (error as Error).stack ?? String(error) }
  } finally {
    trouble = null
    if (severed) await messages?.settled()
  }
}

// This process's messages to a PostgreSQL server, statement by statement, so that it or its connection can be ended
// between two messages.

/** A place in the life of a statement: before it is sent, when it is sent, when its answer is here but not read. */
type Point = 'unsent' | 'sent' | 'unread'
/** The end of a connection: the server ends it, or the network cuts it. */
type Fate = 'server' | 'network'

type Messages = {
  /** Resolves when the session of every ended connection is gone. */
  settled: () => Promise<void>
}

type Wire = {
  stream: { destroy: () => void }
  once: (event: string, told: (told: never) => void) => void
  emit: (event: string, ...told: unknown[]) => boolean
}
type Statement = { text: string }
type Submit = (this: Statement, wire: Wire) => Error | null
type Complete = (this: Statement, told: unknown, wire: Wire) => void

/** Calls `at` at every place, for the fate of the connection there. `server` is where a session is ended. */
async function watchMessages(
  server: string,
  at: (point: Point, isCommit: boolean) => Fate | null,
): Promise<Messages> {
  const admin = new pg.Client({ connectionString: server })
  await admin.connect()
  // This connection is not watched itself, and keeps no process alive.
  const { stream } = (admin as unknown as { connection: { stream: { unref: () => void } } }).connection
  stream.unref()
  const own = (admin as unknown as { connection: Wire }).connection

  const pids = new WeakMap<Wire, number>()
  const ended: number[] = []
  /** Statements that wait until a session has ended. */
  const held = new WeakMap<Wire, (() => void)[]>()

  const wires = pg.Connection.prototype as unknown as { startup: (this: Wire, config: unknown) => void }
  const { startup } = wires
  wires.startup = function (config) {
    this.once('backendKeyData', ({ processID }: { processID: number }) => pids.set(this, processID))
    startup.call(this, config)
  }

  async function endSession(wire: Wire): Promise<void> {
    const pid = pids.get(wire)
    if (pid !== undefined) await admin.query('select pg_terminate_backend($1)', [pid])
  }
  function meet(wire: Wire, fate: Fate): void {
    const pid = pids.get(wire)
    if (pid !== undefined) ended.push(pid)
    if (fate === 'network') cut(wire)
  }
  /** Has the server end the session before any further message to it. */
  function hold(wire: Wire): void {
    const waiting: (() => void)[] = []
    held.set(wire, waiting)
    void endSession(wire)
      .then(() => isGone(wire))
      .then(() => {
        held.delete(wire)
        for (const go of waiting) go()
      })
  }
  async function isGone(wire: Wire): Promise<void> {
    while ((await admin.query(SESSION, [pids.get(wire) ?? 0])).rowCount !== 0);
  }

  const statements = (
    pg.Client as unknown as { Query: { prototype: { submit: Submit; handleCommandComplete: Complete } } }
  ).Query.prototype
  const { submit, handleCommandComplete } = statements
  statements.submit = function (wire) {
    if (wire === own) return submit.call(this, wire)
    const waiting = held.get(wire)
    if (waiting) {
      waiting.push(() => void submit.call(this, wire))
      return null
    }
    const isCommit = this.text === 'commit'
    const before = at('unsent', isCommit)
    if (before) meet(wire, before)
    if (before === 'server') {
      hold(wire)
      held.get(wire)?.push(() => void submit.call(this, wire))
      return null
    }
    const error = submit.call(this, wire)
    const after = at('sent', isCommit)
    if (after) meet(wire, after)
    if (after === 'server') hold(wire)
    return error
  }
  statements.handleCommandComplete = function (told, wire) {
    const fate = wire === own ? null : at('unread', this.text === 'commit')
    if (!fate) return handleCommandComplete.call(this, told, wire)
    meet(wire, fate)
    // The server's end follows its answer, which is read then.
    if (fate === 'network') return
    hold(wire)
    handleCommandComplete.call(this, told, wire)
  }

  return {
    async settled() {
      while ((await admin.query(SESSIONS, [ended])).rowCount !== 0);
      ended.length = 0
    },
  }
}

/** Ends a connection from this side. Messages that arrived together with the current one are not read either. */
function cut(wire: Wire): void {
  const emit = wire.emit.bind(wire)
  wire.emit = (event, ...told) => (event === 'end' || event === 'error' ? emit(event, ...told) : false)
  wire.stream.destroy()
}

const SESSION = 'select from pg_stat_activity where pid = $1'
const SESSIONS = 'select from pg_stat_activity where pid = any($1)'

// The calls of this process to SQLite, so that it can be ended between two of them.

/**
 * Has `boundary` called before and after every call to the database: the code between two calls is never interrupted.
 */
function watchCalls(boundary: (isCommit: boolean) => void): void {
  const db = openInMemory()
  const statement = Object.getPrototypeOf(SQLite.prototype.prepare.call(db, 'select 1'))
  const watched: [object: Record<string, (...given: unknown[]) => unknown>, names: string[]][] = [
    [statement, ['run', 'get', 'all', 'iterate']],
    [SQLite.prototype as never, ['exec', 'pragma']],
  ]
  for (const [object, names] of watched) {
    for (const name of names) {
      const original = object[name] as (...given: unknown[]) => unknown
      object[name] = function (this: object, ...given: unknown[]) {
        const isCommit = isCommitting(this, given)
        boundary(isCommit)
        const result = original.apply(this, given)
        boundary(isCommit)
        return result
      }
    }
  }
  db.close()
}

/** Whether a call is a commit: of a prepared statement, or as text. */
const isCommitting = (statement: object, [text]: unknown[]): boolean =>
  ('source' in statement ? statement.source : text) === 'commit'
