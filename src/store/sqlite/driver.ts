// Runs the transactions that both stores share on a file: from begin to commit without ever waiting.

import type { Statement } from 'better-sqlite3'
import {
  always,
  type Base,
  createTally,
  type Dialect,
  NOTHING,
  type Params,
  type Query,
  type Step,
  type Tally,
  type Tx,
  type WriteTx,
} from '../transaction.ts'
import type { Connection, Database } from './file/connection.ts'
import type { TenantTime } from './tenant-time.ts'

const DIALECT: Dialect = {
  among: (column, parameter) => `${column} in (select value from json_each(:${parameter}))`,
  field: (json, name) => `json_extract(${json}, '$.${name}')`,
  firstWord: (text) => `substr(${text}, 1, instr(${text} || ' ', ' ') - 1)`,
}

export type Driver = Base & {
  /** Runs steps inside a transaction that is under way, for what this store writes by itself. */
  within<T>(work: (tx: Tx) => Step<T>): T
}

export function createDriver(connection: Connection, time: Pick<TenantTime, 'of'>): Driver {
  const { db, clock, present, look, read, write } = connection
  const transactionOn = transactions(db)

  function run<T>(work: (tx: WriteTx) => Step<T>, now = present): T {
    const tally = createTally()
    const value = finished(
      work({
        ...transactionOn(tally),
        clock: always(() => answering(clock)),
        present: always(() => answering(present)),
        times: always(() =>
          answering(() => {
            const real = now()
            return { real, of: (tenantId) => time.of(tenantId, real) }
          }),
        ),
      }),
    )
    tally.complete()
    return value
  }

  return {
    look: (work) => look(() => run(work)),
    read: (work) => read(() => run(work)),
    write: (work, { caller } = {}) => write((real) => run(work, () => real), caller),
    within: run,
  }
}

function transactions(db: Database): (tally: Tally) => Tx {
  const statements: Statement[] = []
  const ready = ({ id, text }: Query<unknown>): Statement =>
    (statements[id] ??= db.prepare(typeof text === 'string' ? text : text(DIALECT)))
  return (tally) => {
    const step = <T>(run: () => T): Step<T> => tally.step(() => answering(run))
    return {
      all: <Row>(query: Query<Row>, params: Params = {}) =>
        step(() => ready(query).all(bound(params)) as Row[]),
      get: <Row>(query: Query<Row>, params: Params = {}) =>
        step(() => ready(query).get(bound(params)) as Row | undefined),
      run: (query, params = {}) => step(() => ready(query).run(bound(params)).changes),
      lock: () => NOTHING,
      turn: () => NOTHING,
      together: (...steps) => step(() => steps.map(finished) as never),
      when: (condition, made) => (condition ? made() : NOTHING),
    }
  }
}

const answering = <T>(run: () => T): Iterator<never, T> => ({
  next: () => ({ done: true, value: run() }),
})

function finished<T>(step: Step<T>): T {
  const { done, value } = step[Symbol.iterator]().next()
  if (!done) throw new Error('a transaction on a file has waited')
  return value
}

/** SQLite knows no arrays: `among` reads them from JSON. */
function bound(params: Params): Params {
  const lists = Object.entries(params).filter(([, value]) => Array.isArray(value))
  if (lists.length === 0) return params
  return { ...params, ...Object.fromEntries(lists.map(([name, value]) => [name, JSON.stringify(value)])) }
}
