// A transaction that both stores run from one text: a generator of steps. A driver for each database runs it
// (sqlite/driver.ts, postgres/driver.ts).
//
// On a file a step answers at once, so nothing gets in between from begin to commit. On a server it is sent when it is
// reached, and steps that stand in one `together` are sent without waiting for each other's answers. A step is lazy:
// the order of writing is the order of sending, whether an item is a statement or a helper with several, and that is
// what keeps the order of locks.

import type { Frozen } from '../core/frozen.ts'
import type { Caller, Tenant } from '../core/partner.ts'
import type { Instant } from '../core/time.ts'
import type { Params, Query } from './statement.ts'

/** A step's wait on a server. */
export type Wait = Promise<unknown>
/** An action and its result. It must be reached once: by `yield*`, or in a `together` that is reached. */
export type Step<T> = { [Symbol.iterator](): Iterator<Wait, T, unknown> }
/** The return type of a helper that is a generator function. */
export type Steps<T> = Generator<Wait, T, unknown>
type Answer<S> = S extends Step<infer T> ? T : never

/** Operations inside a transaction. */
export interface Tx {
  all<Row>(query: Query<Row>, params?: Params): Step<Row[]>
  /** The first row, undefined when there is none. */
  get<Row>(query: Query<Row>, params?: Params): Step<Row | undefined>
  /** How many rows were touched. */
  run(query: Query<unknown>, params?: Params): Step<number>
  /** Asks for locks. A file needs none: its only writer runs to its end. */
  lock(query: Query<unknown>, params?: Params): Step<void>
  /** The number of a new row. In one `together` with other steps, it costs no extra wait. */
  nextId(table: Numbered): Step<number>
  /** Waits until the transactions that took the same turn earlier have ended. A file needs none. */
  turn(of: Turn, tenantId?: number): Step<void>
  /** The results of all steps. */
  together<const S extends readonly Step<unknown>[]>(
    ...steps: S
  ): Step<{ -readonly [K in keyof S]: Answer<S[K]> }>
  when<T>(condition: boolean, step: () => Step<T>): Step<T | undefined>
}
export type Turn = 'audit' | 'numbering' | 'poll'
export type Numbered = 'windows'

export interface ReadTx extends Tx {
  /** The clock's time. */
  readonly clock: Step<Instant>
  /** The time of a write now: the clock, never before what has been reported. */
  readonly present: Step<Instant>
  /** Why nothing may fire or be delivered; null in a database that is not frozen. */
  readonly frozen: Step<Frozen | null>
}
export interface WriteTx extends ReadTx {
  /** On a server read behind the gate of months: send what does not need it before it, or together with it. */
  readonly times: Step<Times>
}
export type Times = {
  /** The time of every tenant but sandboxes. */
  real: Instant
  /** The time of a tenant of the scope. */
  of: (tenantId: number) => Instant
}

/** For whom a transaction runs, and the data that it touches. */
export type Scope = {
  /** The tenants whose data is written. */
  tenants?: readonly number[]
  /** Waits until no other write of the tenants, or of any tenant, is under way. */
  alone?: 'tenants' | 'all'
  /** The key of a call: nothing is written once it has ended. */
  key?: string | undefined
  /** The tenant whose call waits, in turn with other tenants. Left out for an operator's and for background work. */
  caller?: number | 'unknown'
  /** Whether it fires, delivers or issues, which is refused while frozen. A moved database refuses every write. */
  acts?: boolean
  /**
   * How much a statement reads, if that is much: `large` grows with a month or with the due plans, and may take
   * minutes; `whole` is whole tables, however long they take.
   */
  reads?: 'large' | 'whole'
  /** How long a write waits for each lock of a server; by default, as long as any write does. */
  waitsMs?: number
  /** Repeated once when another transaction has just added the same row, which it then sees. */
  onceMore?: boolean
}

export const ofTenant = ({ tenantId }: Pick<Tenant, 'tenantId'>): Scope => ({ tenants: [tenantId] })
/** Waits until no other write of the tenant is under way. */
export const aloneIn = (tenant: Tenant): Scope => ({ ...ofTenant(tenant), alone: 'tenants' })

/** The scope of a call of the tenant, whose write is refused once its key has ended. */
export const callOf = ({ tenantId, keyId }: Pick<Caller, 'tenantId' | 'keyId'>): Scope => ({
  tenants: [tenantId],
  caller: tenantId,
  key: keyId,
})

/** A database, and the only ways to use it. */
export type Base = {
  /** Runs a single step, without a transaction. */
  look<T>(work: (tx: ReadTx) => Step<T>, scope?: Scope): Promise<T>
  /** Runs `work` on one consistent snapshot. */
  read<T>(work: (tx: ReadTx) => Step<T>, scope?: Scope): Promise<T>
  /** Resolves once `work` is committed; a throw undoes it. `work` may run more than once: the last run counts. */
  write<T>(work: (tx: WriteTx) => Step<T>, scope?: Scope): Promise<T>
}

/** A step that can be reached any number of times, and runs each time. */
export const always = <T>(begin: () => Iterator<Wait, T, unknown>): Step<T> => ({ [Symbol.iterator]: begin })
/** A known value, as a step. */
export const given = <T>(value: T): Step<T> => always(() => ({ next: () => ({ done: true, value }) }))
export const NOTHING: Step<undefined> = given(undefined)

/** Runs a statement about many rows, its parameter `rows`, if there are any. */
export const runRows = (
  tx: Tx,
  statement: Query<never>,
  rows: readonly Params[],
  params: Params = {},
): Step<unknown> => (rows.length > 0 ? tx.run(statement, { ...params, rows }) : NOTHING)

/**
 * Counts the steps of a transaction: a step that is made and forgotten compiles and does nothing, so such a transaction
 * must not be committed. A helper that is a generator function is not counted here; the house rules find a forgotten
 * one (test/tidy.test.ts).
 */
export class Tally {
  /** The number of steps made and not reached yet. */
  waiting = 0

  complete(): void {
    if (this.waiting > 0)
      throw new Error(`${this.waiting} steps of a transaction were made and never reached`)
  }
}

export abstract class Once<T> implements Step<T> {
  private tally: Tally | null

  constructor(tally: Tally) {
    this.tally = tally
    tally.waiting += 1
  }

  [Symbol.iterator](): Iterator<Wait, T, unknown> {
    if (this.tally === null) throw new Error('a step of a transaction is reached for the second time')
    this.tally.waiting -= 1
    this.tally = null
    return this.begin()
  }

  /** Called once, when the step is reached. */
  protected abstract begin(): Iterator<Wait, T, unknown>
}
