// Runs the transactions that both stores share on a file: from begin to commit without ever waiting.

import type { Statement } from 'better-sqlite3'
import type { Instant } from '../../core/time.ts'
import {
  always,
  type Base,
  createTally,
  NOTHING,
  type Numbered,
  type Params,
  type Query,
  query,
  type Step,
  type Tally,
  type Tx,
  type WriteTx,
} from '../transaction.ts'
import type { Connection, Database } from './file/connection.ts'
import type { TenantTime } from './tenant-time.ts'

export type Driver = Base & {
  /** Runs steps inside a transaction that is under way, for what this store writes by itself. */
  within<T>(work: (tx: Tx) => Step<T>): T
}

export function createDriver(connection: Connection, time: Pick<TenantTime, 'of'>): Driver {
  const { db, clock, present, look, read, write } = connection
  const tally = createTally()
  let real = 0 as Instant
  // One for all transactions: each runs to its end before the next one begins.
  const transaction: WriteTx = {
    ...statementsOf(db, tally),
    clock: always(() => answering(clock)),
    present: always(() => answering(present)),
    times: always(() => {
      const now = real
      return answering(() => ({ real: now, of: (tenantId) => time.of(tenantId, now) }))
    }),
  }

  function run<T>(work: (tx: WriteTx) => Step<T>): T {
    tally.begin()
    const value = finished(work(transaction))
    tally.complete()
    return value
  }

  return {
    look: (work) => look(() => run(work)),
    read: (work) => read(() => run(work)),
    write: (work, { caller } = {}) =>
      write((now) => {
        real = now
        return run(work)
      }, caller),
    within: run,
  }
}

function statementsOf(db: Database, tally: Tally): Tx {
  const prepared: Prepared[] = []
  const ready = (query: Query<unknown>): Prepared => (prepared[query.id] ??= prepare(db, query))
  const ask = <T>(
    how: (statement: Statement, values: Params) => T,
    query: Query<unknown>,
    params: Params = {},
  ): Step<T> =>
    tally.step(() =>
      answering(() => {
        const { statement, lists } = ready(query)
        return how(statement, lists.length === 0 ? params : { ...params, ...listsOf(lists, params) })
      }),
    )
  return {
    all: <Row>(query: Query<Row>, params?: Params) =>
      ask((...asked) => all(...asked) as Row[], query, params),
    get: <Row>(query: Query<Row>, params?: Params) =>
      ask((...asked) => get(...asked) as Row | undefined, query, params),
    run: (query, params) => ask(changes, query, params),
    lock: () => NOTHING,
    nextId: (table) => ask(nextId, NEXT_IDS[table]),
    turn: () => NOTHING,
    together: (...steps) => tally.step(() => answering(() => steps.map(finished) as never)),
    when: (condition, made) => (condition ? made() : NOTHING),
  }
}

const all = (statement: Statement, values: Params): unknown[] => statement.all(values)
const get = (statement: Statement, values: Params): unknown => statement.get(values)
const changes = (statement: Statement, values: Params): number => statement.run(values).changes
const nextId = (statement: Statement, values: Params): number =>
  Number((statement.get(values) as { id: bigint }).id)

/** What SQLite would give to a row without a number. */
const NEXT_IDS: Record<Numbered, Query<{ id: bigint }>> = {
  windows: query('select coalesce(max(window_id), 0) + 1 as id from windows'),
}

/** `lists` are the parameters with several values. */
type Prepared = { statement: Statement; lists: readonly string[] }

function prepare(db: Database, { text }: Query<unknown>): Prepared {
  if (typeof text === 'string') return { statement: db.prepare(text), lists: [] }
  const lists: string[] = []
  const words = text({
    // SQLite knows no arrays: they are read from JSON.
    among(column, parameter) {
      lists.push(parameter)
      return `${column} in (select value from json_each(:${parameter}))`
    },
    field: (json, name) => `json_extract(${json}, '$.${name}')`,
    firstWord: (words) => `substr(${words}, 1, instr(${words} || ' ', ' ') - 1)`,
  })
  return { statement: db.prepare(words), lists }
}

const listsOf = (lists: readonly string[], params: Params): Params =>
  Object.fromEntries(lists.map((name) => [name, JSON.stringify(params[name])]))

const answering = <T>(run: () => T): Iterator<never, T> => ({
  next: () => ({ done: true, value: run() }),
})

function finished<T>(step: Step<T>): T {
  const { done, value } = step[Symbol.iterator]().next()
  if (!done) throw new Error('a transaction on a file has waited')
  return value
}
