// Passes as they are noted, what one knows, and what a page of one would do; and whether the clock is in doubt. A page
// itself is written for each store (sqlite/pass.ts, postgres/pass.ts), because it fires everything that is bought.

import type { Dispute } from '../../core/clock.ts'
import { DAY_MS, type Instant, plus } from '../../core/time.ts'
import { PASS_GAPS_SEEN } from '../../core/window.ts'
import { type DisputeRow, disputeOf } from '../rows/ledger.ts'
import { instant, query } from '../statement.ts'
import type { ClockStore, Fired, PassCounts, PassStart, PassStore, Preview, SandboxPage } from '../store.ts'
import { columnsToAdd, insertInto, overwritten } from '../tables.ts'
import type { Base, Step, Steps, Times, Tx, WriteTx } from '../transaction.ts'
import { addPrice, newestPrice, volatilityNow } from './prices.ts'

/** Passes kept on record: a week of minutely ones. */
const PASSES_KEPT = 10_080
/** How many characters of a feed's failure are stored: part of it comes from the feed itself. */
const FAILURE_MAX = 300

/** Time between passes, oldest first; after a clock that was set back, none. */
function gapsMs(latestFirst: readonly (bigint | Instant)[]): number[] {
  const at = latestFirst.map(Number).reverse()
  return at.slice(1).map((t, i) => Math.max(0, t - (at[i] ?? t)))
}

export type TickRow = { tick_id: bigint; at: bigint }

const BEGIN = query<TickRow>(
  ({ databaseBytes }) => `${insertInto('ticks', { database_bytes: databaseBytes })} returning tick_id, at`,
)
const FORGET_PASSES = query('delete from ticks where tick_id <= :before')
const FORGET_EVENTS = query('delete from webhook_events where tick_id between 1 and :before')
/** Those of sandboxes have numbers below zero. One that nobody has claimed may be of an advance that is under way. */
const FORGET_SANDBOX_EVENTS = query(
  'delete from webhook_events where tick_id < 0 and (claimed_at is not null or created_at < :before)',
)
const TIMES = query<{ at: bigint }>(
  `select at from ticks where tick_id <= coalesce(cast(:tick_id as bigint), tick_id)
   order by tick_id desc limit :limit`,
)
const TENANTS = query<{ tenant_id: bigint }>(
  ({ among }) => `select distinct tenant_id from plans where ${among('plan_id', 'plan_ids')}`,
)
const NAMES = query<{ plan_id: bigint; partner_plan_id: string }>(
  ({ among }) => `select plan_id, partner_plan_id from plans where ${among('plan_id', 'plan_ids')}`,
)

/** Runs a page of a pass, as a store does by itself. */
export type RunPage = (
  tx: WriteTx,
  page: Omit<SandboxPage, 'wakeUpId'>,
  times: Times,
) => Step<PassCounts & { fired: Fired[] }>

/** What all hands of a pass share. */
export function* passOf(tx: Tx, tick: TickRow): Steps<PassStart> {
  const at = instant(tick.at)
  const [times, price, volatility] = yield* tx.together(
    tx.all(TIMES, { tick_id: tick.tick_id, limit: PASS_GAPS_SEEN + 1 }),
    newestPrice(tx, at),
    volatilityNow(tx),
  )
  return {
    passId: Number(tick.tick_id),
    at,
    price,
    volatility,
    passGapsMs: gapsMs(times.map(({ at }) => at)),
  }
}

/** `runPage` resolves once all is stored that it stores. */
export const createPassNotes = (
  base: Base,
  runPage: RunPage,
): Pick<PassStore, 'beginPass' | 'peekPass' | 'previewDuePlans'> => ({
  beginPass: (observed, asked = null) =>
    base.write(
      function* (tx) {
        const { real } = yield* tx.times
        if (observed) yield* addPrice(tx, real, observed)
        const tick = yield* tx.get(BEGIN, {
          at: real,
          price: observed?.price ?? null,
          feed: asked?.name ?? null,
          feed_failure: asked?.failure?.slice(0, FAILURE_MAX) ?? null,
        })
        if (!tick) throw new Error('a pass was noted without a number')
        const before = Number(tick.tick_id) - PASSES_KEPT
        const [known] = yield* tx.together(
          passOf(tx, tick),
          tx.run(FORGET_PASSES, { before }),
          tx.run(FORGET_EVENTS, { before }),
          tx.run(FORGET_SANDBOX_EVENTS, { before: plus(real, -DAY_MS) }),
        )
        return known
      },
      { refusedWhileFrozen: true },
    ),

  peekPass: () =>
    base.read(function* (tx) {
      // Includes the gap that a pass at this moment would end: it helps decide how early the failsafe begins.
      const at = yield* tx.clock
      const [times, price, volatility] = yield* tx.together(
        tx.all(TIMES, { tick_id: null, limit: PASS_GAPS_SEEN }),
        newestPrice(tx, at),
        volatilityNow(tx),
      )
      return { at, price, volatility, passGapsMs: gapsMs([at, ...times.map(({ at }) => at)]) }
    }),

  async previewDuePlans(planIds, decisions) {
    // Done for real and then undone, so that the preview cannot differ from a pass.
    const undo = new Undo<Preview[]>()
    const of = { plan_ids: planIds }
    const tenants = await tenantsOf(base, planIds)
    const work = base.write(
      function* (tx) {
        const { fired } = yield* runPage(tx, { planIds, decisions }, yield* tx.times)
        const names = new Map(
          (yield* tx.all(NAMES, of)).map((row) => [Number(row.plan_id), row.partner_plan_id]),
        )
        undo.value = fired.map((one) => ({ ...one, partnerPlanId: names.get(one.planId) ?? '' }))
        throw undo
      },
      { tenants },
    )
    await work.catch((error) => {
      if (error !== undo) throw error
    })
    return undo.value ?? []
  },
})

/** Whose plans they are. */
export async function tenantsOf({ look }: Base, planIds: readonly number[]): Promise<number[]> {
  const rows = await look((tx) => tx.all(TENANTS, { plan_ids: planIds }))
  return rows.map(({ tenant_id }) => Number(tenant_id))
}

class Undo<T> extends Error {
  value: T | undefined
}

// The single row that says the clock is in doubt, so that every process knows what one pass has found out.

const STANDING = query<DisputeRow>('select * from clock_disputes')
// The table is locked, because there may be no row to lock, and this hardly ever happens.
const LOCK_TABLE = query('lock table clock_disputes in share row exclusive mode')
const PUT_DISPUTE = query(
  `${insertInto('clock_disputes', { one: '1' })}
   on conflict (one) do update set ${overwritten(columnsToAdd('clock_disputes', 'one'))}`,
)
const CLEAR_DISPUTE = query('delete from clock_disputes')

export function createClockStore({ read, write }: Base): ClockStore {
  const readClock: ClockStore['readClock'] = () =>
    read(function* (tx) {
      const [now, standing] = yield* tx.together(tx.present, standingDispute(tx))
      return { now, standing }
    })

  return {
    async judgeClock(decide) {
      // Usually there is nothing to write, and then a pass does not pay for a commit.
      const { now, standing } = await readClock()
      if (standing === null && decide(now, standing) === null) return null
      return write(function* (tx) {
        const [{ real }, , standing] = yield* tx.together(tx.times, tx.lock(LOCK_TABLE), standingDispute(tx))
        const dispute = decide(real, standing)
        yield* putDispute(tx, dispute)
        return dispute
      })
    },

    readClock,
  }
}

/** The dispute that stands. */
export function* standingDispute(tx: Tx): Steps<Dispute | null> {
  const row = yield* tx.get(STANDING)
  return row ? disputeOf(row) : null
}

function putDispute(tx: Tx, dispute: Dispute | null): Step<unknown> {
  if (dispute === null) return tx.run(CLEAR_DISPUTE)
  const { source, at } = dispute.witness
  return tx.run(PUT_DISPUTE, { clock_at: dispute.clockAt, witness_at: at, source })
}
