// Runs the transactions that both stores share on a file: from begin to commit without ever waiting.

import type { Statement } from 'better-sqlite3'
import type { Instant } from '../../core/time.ts'
import { refuseFrozen } from '../frozen.ts'
import { type Params, type Query, query } from '../statement.ts'
import {
  always,
  type Base,
  NOTHING,
  type Numbered,
  Once,
  type Step,
  Tally,
  type Tx,
  type WriteTx,
} from '../transaction.ts'
import type { Connection, Database } from './file/connection.ts'
import { whenFree } from './file/waiting.ts'
import type { TenantTime } from './tenant-time.ts'

export type Driver = Base & {
  /** Runs steps inside a transaction that is under way, for what this store writes by itself. */
  within<T>(work: (tx: Tx) => Step<T>): T
  /**
   * Deletes rows to which others refer, without checking foreign keys: for each row SQLite would search all executions
   * and trades, including live ones. The caller must leave nothing dangling.
   */
  unreferenced: Base['write']
}

export function createDriver(connection: Connection, time: Pick<TenantTime, 'of'>): Driver {
  const { db, clock, present, frozen, look, read, write } = connection
  const alone = aloneWithoutKeys(connection)
  const tally = new Tally()
  let real = 0 as Instant
  // One for all transactions: each runs to its end before the next one begins.
  const transaction: WriteTx = {
    ...statementsOf(db, tally),
    clock: always(() => answering(clock)),
    present: always(() => answering(present)),
    frozen: always(() => answering(frozen)),
    times: always(() => {
      const now = real
      return answering(() => ({ real: now, of: (tenantId) => time.of(tenantId, now) }))
    }),
  }

  function run<T>(work: (tx: WriteTx) => Step<T>): T {
    // A transaction that threw may have left some.
    tally.waiting = 0
    const value = finished(work(transaction))
    tally.complete()
    return value
  }

  function runAt<T>(now: Instant, work: (tx: WriteTx) => Step<T>): T {
    real = now
    return run(work)
  }

  return {
    look: (work) => look(() => run(work)),
    read: (work) => read(() => run(work)),
    write: (work, { caller, refusedWhileFrozen = false } = {}) =>
      write((now) => {
        if (refusedWhileFrozen) refuseFrozen(frozen(), true)
        return runAt(now, work)
      }, caller),
    within(work) {
      // Possibly by hand inside a transaction of steps, some of which are still to be reached.
      const { waiting } = tally
      const value = run(work)
      tally.waiting = waiting
      return value
    },
    unreferenced: (work) => alone(() => runAt(present(), work)),
  }
}

/** A write that this store does by hand, as a step of a shared transaction. */
export const byHand = <T>(work: () => T): Step<T> => always(() => answering(work))

/**
 * Without a turn of the event loop in between, so that no other request's statement runs while foreign keys are off: no
 * transaction can turn them off for itself.
 */
function aloneWithoutKeys({ db, lookAtName, mayWrite }: Connection): <T>(work: () => T) => Promise<T> {
  const sql = {
    begin: db.prepare('begin immediate'),
    commit: db.prepare('commit'),
    rollback: db.prepare('rollback'),
  }
  return (work) =>
    whenFree(() => {
      db.pragma('foreign_keys = off')
      try {
        sql.begin.run()
        mayWrite()
        const value = work()
        sql.commit.run()
        lookAtName()
        return value
      } finally {
        if (db.inTransaction) sql.rollback.run()
        db.pragma('foreign_keys = on')
      }
    })
}

function statementsOf(db: Database, tally: Tally): Tx {
  const prepared: Prepared[] = []
  const ready = (query: Query<unknown>): Prepared => (prepared[query.id] ??= prepare(db, query))
  return {
    all: <Row>(query: Query<Row>, params: Params = NONE) => new All<Row>(tally, ready(query), params),
    get: <Row>(query: Query<Row>, params: Params = NONE) => new Get<Row>(tally, ready(query), params),
    run: (query, params = NONE) => new Run(tally, ready(query), params),
    lock: () => NOTHING,
    nextId: (table) => new NextId(tally, ready(NEXT_IDS[table]), NONE),
    turn: () => NOTHING,
    together: (...steps) => new Together(tally, steps) as Step<never>,
    when: (condition, made) => (condition ? made() : NOTHING),
  }
}

const NONE: Params = {}

/** Its first `next` runs the statement and has the answer, so no generator of a transaction is ever suspended. */
abstract class Done<T> extends Once<T> implements Iterator<never, T> {
  protected override begin() {
    return this
  }
  next(): IteratorResult<never, T> {
    return { done: true, value: this.answer() }
  }
  protected abstract answer(): T
}

abstract class Asked<T> extends Done<T> {
  protected statement: Statement
  protected values: Params
  constructor(tally: Tally, { statement, lists }: Prepared, params: Params) {
    super(tally)
    this.statement = statement
    this.values = lists === null ? params : { ...params, ...listsOf(lists, params) }
  }
}

class All<Row> extends Asked<Row[]> {
  protected override answer(): Row[] {
    return this.statement.all(this.values) as Row[]
  }
}
class Get<Row> extends Asked<Row | undefined> {
  protected override answer(): Row | undefined {
    return this.statement.get(this.values) as Row | undefined
  }
}
class Run extends Asked<number> {
  protected override answer(): number {
    return this.statement.run(this.values).changes
  }
}
class NextId extends Asked<number> {
  protected override answer(): number {
    return Number((this.statement.get() as { id: bigint }).id)
  }
}
class Together extends Done<unknown[]> {
  private steps: readonly Step<unknown>[]
  constructor(tally: Tally, steps: readonly Step<unknown>[]) {
    super(tally)
    this.steps = steps
  }
  protected override answer(): unknown[] {
    return this.steps.map(finished)
  }
}

/** The number that SQLite would give to the next row. */
const NEXT_IDS: Record<Numbered, Query<{ id: bigint }>> = {
  windows: query('select coalesce(max(window_id), 0) + 1 as id from windows'),
}

/** Null for text that damage has made no JSON: one row must not fail a whole list. */
export const soundJson = (text: string): string => `case when json_valid(${text}) then ${text} end`

/** How the parameters with many values or rows become JSON; null without any. */
type Prepared = { statement: Statement; lists: Lists | null }
type Lists = Readonly<Record<string, (value: unknown) => unknown>>

function prepare(db: Database, { text }: Query<unknown>): Prepared {
  if (typeof text === 'string') return { statement: db.prepare(text), lists: null }
  const lists: Record<string, (value: unknown) => unknown> = {}
  const words = text({
    // SQLite knows no arrays: they are read from JSON.
    among(column, parameter) {
      lists[parameter] = (values) => values
      return `${column} in (select value from json_each(:${parameter}))`
    },
    rows(parameter, columns, as) {
      const names = Object.keys(columns)
      lists[parameter] = (rows) => (rows as Params[]).map((row) => names.map((name) => row[name]))
      const values = names.map((name, at) => `value ->> ${at} as ${name}`)
      return `(select ${values.join(', ')} from json_each(:${parameter})) ${as}`
    },
    forUpdate: () => '',
    field: (json, name) => `(${soundJson(json)}) ->> '${name}'`,
    least: (...values) => `min(${values.join(', ')})`,
    // Without its log, as this transaction leaves it.
    databaseBytes: '(select page_count * page_size from pragma_page_count(), pragma_page_size())',
    firstWord: (words) => `substr(${words}, 1, instr(${words} || ' ', ' ') - 1)`,
  })
  return { statement: db.prepare(words), lists: Object.keys(lists).length > 0 ? lists : null }
}

const listsOf = (lists: Lists, params: Params): Params =>
  Object.fromEntries(Object.entries(lists).map(([name, valuesIn]) => [name, jsonOf(valuesIn(params[name]))]))

/** SQLite reads an integer of JSON as it is written, up to 64 bits. */
function jsonOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(',')}]`
  return typeof value === 'bigint' ? `${value}` : JSON.stringify(value ?? null)
}

const answering = <T>(run: () => T): Iterator<never, T> => ({
  next: () => ({ done: true, value: run() }),
})

function finished<T>(step: Step<T>): T {
  const { done, value } = step[Symbol.iterator]().next()
  if (!done) throw new Error('a transaction on a file has waited')
  return value
}

/** The prepared statements of shared queries, for what this store does by hand. */
export function preparedAll<Q extends Readonly<Record<string, Query<unknown>>>>(db: Database, queries: Q) {
  const entries = Object.entries(queries).map(([name, query]) => [name, prepare(db, query).statement])
  return Object.fromEntries(entries) as {
    [K in keyof Q]: Statement<[object], Q[K] extends Query<infer Row> ? Row : never>
  }
}
