// Runs the shared transactions on a file: from begin to commit without ever waiting.

import type { Statement } from 'better-sqlite3'
import type { Instant } from '../../core/time.ts'
import { refuseFrozen } from '../frozen.ts'
import { timeAt } from '../shared/sandboxes.ts'
import { type Params, type Query, query, readBy, rowsOf } from '../statement.ts'
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

export type Driver = Base & {
  /**
   * Deletes rows to which others refer, without checking foreign keys: for each row SQLite would search all executions
   * and trades, including live ones. The caller must leave nothing dangling.
   */
  unreferenced: Base['write']
}

export function createDriver(connection: Connection): Driver {
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
      return answering(() => ({ real: now, of: (tenantId) => finished(timeAt(transaction, tenantId, now)) }))
    }),
  }

  function run<T>(work: (tx: WriteTx) => Step<T>, now = real): T {
    real = now
    // A transaction that threw may have left some steps.
    tally.waiting = 0
    const value = finished(work(transaction))
    tally.complete()
    return value
  }

  return {
    look: (work) => look(() => run(work)),
    read: (work) => read(() => run(work)),
    write: (work, { caller, acts = false } = {}) =>
      write(
        (now) => {
          if (acts) refuseFrozen(frozen(), true)
          return run(work, now)
        },
        caller === 'unknown' ? undefined : caller,
      ),
    unreferenced: (work) => alone(() => run(work, present())),
  }
}

/** Runs steps in the transaction that a connection is in, if any. */
export function stepsOn(db: Database): <T>(work: (tx: Tx) => Step<T>) => T {
  const steps = statementsOf(db, new Tally())
  return (work) => finished(work(steps))
}

/** A write of this store alone, as a step of a shared transaction. */
export const byHand = <T>(work: () => T): Step<T> => always(() => answering(work))

/** Without a turn of the event loop, so that no other statement runs while foreign keys are off for the connection. */
const aloneWithoutKeys =
  ({ db, lookAtName, mayWrite }: Connection) =>
  <T>(work: () => T): Promise<T> => {
    const transaction = db.transaction(() => {
      mayWrite()
      return work()
    })
    return whenFree(() => {
      db.pragma('foreign_keys = off')
      try {
        const value = transaction.immediate()
        lookAtName()
        return value
      } finally {
        db.pragma('foreign_keys = on')
      }
    })
  }

function statementsOf(db: Database, tally: Tally): Tx {
  const prepared: Prepared[] = []
  const ready = (query: Query<unknown>): Prepared => (prepared[query.id] ??= prepare(db, query))
  const step = <T>(answer: () => T): Step<T> => new Answered(tally, answer)
  const first = <Row>(query: Query<Row>, params: Params): Row | undefined => {
    const found = ready(query)
    const row = found.statement.get(valuesOf(found, params))
    return row === undefined ? undefined : query.read(row as never)
  }
  return {
    all: (query, params = NONE) => step(() => readBy(query, allOf(ready(query), params))),
    get: (query, params = NONE) => step(() => first(query, params)),
    run: (query, params = NONE) => step(() => runOf(ready(query), params)),
    lock: () => NOTHING,
    nextId: (table) => step(() => Number(first(NEXT_IDS[table], NONE)?.id)),
    turn: () => NOTHING,
    together: (...steps) => step(() => steps.map(finished) as never),
    when: (condition, made) => (condition ? made() : NOTHING),
  }
}

const NONE: Params = {}

/** Its first `next` runs the statement and has the answer, so no generator of a transaction is ever suspended. */
class Answered<T> extends Once<T> implements Iterator<never, T> {
  private answer: () => T
  constructor(tally: Tally, answer: () => T) {
    super(tally)
    this.answer = answer
  }
  protected override begin() {
    return this
  }
  next(): IteratorResult<never, T> {
    return { done: true, value: this.answer() }
  }
}

function allOf(prepared: Prepared, params: Params): unknown[] {
  const { statement, set } = prepared
  if (set === null) return statement.all(valuesOf(prepared, params))
  return inParts(prepared, set, params, (part, values, named) => part.all(values, named)).flat()
}

function runOf(prepared: Prepared, params: Params): number {
  const { statement, set } = prepared
  if (set === null) return statement.run(valuesOf(prepared, params)).changes
  const results = inParts(prepared, set, params, (part, values, named) => part.run(values, named))
  return results.reduce((sum, { changes }) => sum + changes, 0)
}

/** More would gain nothing, and fewer keep the remainder, done one by one, short. */
const ROWS_AT_ONCE = 100

/** The number that SQLite would give to the next row. */
const NEXT_IDS: Record<Numbered, Query<{ id: bigint }>> = {
  windows: query('select coalesce(max(window_id), 0) + 1 as id from windows'),
}

/** A statement, its parameters with many values, and its set of rows, if it has one. */
type Prepared = { statement: Statement; lists: readonly string[]; set: RowSet | null }
/**
 * The statement for `ROWS_AT_ONCE` rows, and for a single one. SQLite sets up a table's checks, such as the lists of
 * their `in (...)`, once per statement. For executions, that is 40 % of an insert.
 */
type RowSet = { parameter: string; columns: readonly string[]; many: Statement }

function prepare(db: Database, { text }: Query<unknown>): Prepared {
  if (typeof text === 'string') return { statement: db.prepare(text), lists: [], set: null }
  const lists: string[] = []
  let set: Omit<RowSet, 'many'> | null = null
  const worded = (count: number): string =>
    text({
      // SQLite knows no arrays: they are read from JSON.
      among(column, parameter) {
        if (!lists.includes(parameter)) lists.push(parameter)
        return `${column} in (select value from json_each(:${parameter}))`
      },
      rows(parameter, kinds, as) {
        const columns = Object.keys(kinds)
        set = { parameter, columns }
        if (count === 1) return `(select ${columns.map((name) => `? as ${name}`).join(', ')}) ${as}`
        const row = `(${columns.map(() => '?').join(', ')})`
        const names = columns.map((name, at) => `column${at + 1} as ${name}`)
        return `(select ${names.join(', ')} from (values ${Array(count).fill(row).join(', ')})) ${as}`
      },
      forUpdate: () => '',
      // Null for text that damage has turned into invalid JSON: one row must not fail a whole list.
      field: (json, name) => `(case when json_valid(${json}) then ${json} end) ->> '${name}'`,
      least: (...values) => `min(${values.join(', ')})`,
      // Without the log, as this transaction leaves the database.
      databaseBytes: '(select page_count * page_size from pragma_page_count(), pragma_page_size())',
      firstWord: (words) => `substr(${words}, 1, instr(${words} || ' ', ' ') - 1)`,
    })
  const statement = db.prepare(worded(1))
  return { statement, lists, set: set && { ...(set as RowSet), many: db.prepare(worded(ROWS_AT_ONCE)) } }
}

/** A statement finds the values of a list in JSON, in which SQLite reads integers of up to 64 bits. */
function valuesOf({ lists }: Prepared, params: Params): Params {
  if (lists.length === 0) return params
  return { ...params, ...Object.fromEntries(lists.map((name) => [name, jsonOf(params[name])])) }
}

function jsonOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(',')}]`
  return typeof value === 'bigint' ? `${value}` : JSON.stringify(value ?? null)
}

/** The results of a statement for each part of its rows, with their values and its other parameters. */
function inParts<T>(
  prepared: Prepared,
  { parameter, columns, many }: RowSet,
  params: Params,
  run: (part: Statement, values: unknown[], named: Params) => T,
): T[] {
  const rows = rowsOf(params, parameter)
  const { [parameter]: _, ...others } = params
  const named = valuesOf(prepared, others)
  const results: T[] = []
  for (let from = 0; from < rows.length; ) {
    const count = rows.length - from < ROWS_AT_ONCE ? 1 : ROWS_AT_ONCE
    const values: unknown[] = []
    for (const row of rows.slice(from, from + count)) for (const name of columns) values.push(row[name])
    results.push(run(count === 1 ? prepared.statement : many, values, named))
    from += count
  }
  return results
}

const answering = <T>(run: () => T): Iterator<never, T> => ({
  next: () => ({ done: true, value: run() }),
})

function finished<T>(step: Step<T>): T {
  const { done, value } = step[Symbol.iterator]().next()
  if (!done) throw new Error('a transaction on a file has waited')
  return value
}
