// Runs the shared transactions on a server: steps given together are sent in a pipeline.

import { type Query, query } from '../statement.ts'
import {
  always,
  type Base,
  NOTHING,
  type Numbered,
  Once,
  type ReadTx,
  type Step,
  Tally,
  type Turn,
  type Tx,
  type Wait,
} from '../transaction.ts'
import type { Connection } from './server/connection.ts'
import { onceMore } from './server/errors.ts'
import { LOCK } from './server/locks.ts'
import type { Tx as ServerTx } from './server/pipeline.ts'
import { readFrozen } from './server/timeline.ts'

const turnOf = (lock: number): Query<unknown> => query(`select pg_advisory_xact_lock(${lock}, :tenant::int)`)
const TURNS: Record<Turn, Query<unknown>> = {
  audit: turnOf(LOCK.audit),
  numbering: turnOf(LOCK.numbering),
  poll: turnOf(LOCK.poll),
}

const NEXT_IDS: Record<Numbered, Query<{ id: bigint }>> = {
  windows: query(`select nextval(pg_get_serial_sequence('windows', 'window_id')) as id`),
}

export function createDriver({ clock, look, read, write }: Connection): Base {
  const reading = (pipe: ServerTx, steps: Tx): ReadTx => ({
    ...steps,
    clock: always(() => sent(() => clock.now(pipe))),
    present: always(() => sent(() => clock.present(pipe))),
    frozen: always(() => sent(() => readFrozen(pipe, clock.parameter()))),
  })
  return {
    // Only a transaction has a time limit of its own.
    look: (work, scope) =>
      (scope?.reads ? read : look)((pipe) => within(pipe, (steps) => work(reading(pipe, steps))), scope),
    read: (work, scope) => read((pipe) => within(pipe, (steps) => work(reading(pipe, steps))), scope),
    write(work, scope) {
      const run = () =>
        write(
          (pipe) =>
            within(pipe, (steps) =>
              work({
                ...reading(pipe, steps),
                times: always(() => sent(async () => (await pipe.entered).times)),
                frozen: always(() => sent(async () => (await pipe.entered).frozen)),
              }),
            ),
          scope,
        )
      return scope?.onceMore ? onceMore(run) : run()
    },
  }
}

/** Runs steps inside a transaction that is under way, also for this store's own writes. */
export async function within<T>(pipe: ServerTx, work: (tx: Tx) => Step<T>): Promise<T> {
  const tally = new Tally()
  const value = await finished(work(transactionOn(pipe, tally)))
  tally.complete()
  return value
}

function transactionOn(pipe: ServerTx, tally: Tally): Tx {
  const step = <T>(send: () => Promise<T>): Step<T> => new Sent(tally, send)
  return {
    all: (query, params) => step(() => pipe.all(query, params)),
    get: (query, params) => step(() => pipe.get(query, params)),
    run: (query, params) => step(() => pipe.run(query, params)),
    lock: (query, params) => step(async () => void (await pipe.run(query, params))),
    nextId: (table) => step(async () => Number((await pipe.get(NEXT_IDS[table]))?.id)),
    turn: (of, tenant = 0) => step(async () => void (await pipe.run(TURNS[of], { tenant }))),
    together: (...steps) => step(() => Promise.all(steps.map(finished)) as Promise<never>),
    when: (condition, made) => (condition ? made() : NOTHING),
  }
}

class Sent<T> extends Once<T> {
  private send: () => Promise<T>
  constructor(tally: Tally, send: () => Promise<T>) {
    super(tally)
    this.send = send
  }
  protected override begin(): Iterator<Wait, T, unknown> {
    return sent(this.send)
  }
}

function* sent<T>(begin: () => Promise<T>): Generator<Wait, T, unknown> {
  return (yield begin()) as T
}

/** Begins at once: it is under way when this returns. */
async function finished<T>(step: Step<T>): Promise<T> {
  const steps = step[Symbol.iterator]()
  let at = steps.next()
  while (!at.done) {
    let answer: unknown
    try {
      answer = await at.value
    } catch (error) {
      if (!steps.throw) throw error
      at = steps.throw(error)
      continue
    }
    at = steps.next(answer)
  }
  return at.value
}
