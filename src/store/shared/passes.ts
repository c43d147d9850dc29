// Passes of the scheduler: their turns, their due plans page by page, and their records; the wake-ups that follow; and
// whether the clock is in doubt.

import type { Dispute } from '../../core/clock.ts'
import type { ExecutionId } from '../../core/execution.ts'
import { DAY_MS, type Instant, plus } from '../../core/time.ts'
import { PASS_GAPS_SEEN } from '../../core/window.ts'
import { type TenantRow, tenantOf, type WebhookRow, webhookOf } from '../rows/accounts.ts'
import { disputeOf } from '../rows/ledger.ts'
import { atOf, instant, query } from '../statement.ts'
import type {
  AskedFeed,
  ClockStore,
  DueRanges,
  Fired,
  ObservedPrice,
  PassStart,
  PassStore,
  Preview,
  WakeUpStore,
} from '../store.ts'
import { insertInto, putInto } from '../tables.ts'
import type { Base, Steps, Tx, WriteTx } from '../transaction.ts'
import { runPage } from './pages.ts'
import { addPrice, newestPrice, volatilityNow } from './prices.ts'

/** Passes kept on record: a week of minutely ones. */
const PASSES_KEPT = 10_080
/** How many characters of a feed's failure are stored: part of it comes from the feed itself. */
const FAILURE_MAX = 300

/** Time between passes, oldest first; after a clock that was set back, none. */
function gapsMs(latestFirst: readonly Instant[]): number[] {
  const at = latestFirst.toReversed()
  return at.slice(1).map((t, i) => Math.max(0, t - (at[i] ?? t)))
}

const BEGIN = query(
  ({ databaseBytes }) => `${insertInto('ticks', { database_bytes: databaseBytes })} returning tick_id, at`,
  (row: { tick_id: bigint; at: bigint }) => ({ passId: Number(row.tick_id), at: instant(row.at) }),
)
const FORGET_PASSES = query('delete from ticks where tick_id <= :before')
const FORGET_EVENTS = query('delete from webhook_events where tick_id between 1 and :before')
/** Wake-ups of sandboxes have numbers below zero. An unclaimed one may belong to an advance that is under way. */
const FORGET_SANDBOX_EVENTS = query(
  'delete from webhook_events where tick_id < 0 and (claimed_at is not null or created_at < :before)',
)
const TIMES = query(
  `select at from ticks where tick_id <= coalesce(cast(:tick_id as bigint), tick_id)
   order by tick_id desc limit :limit`,
  atOf,
)
const FINISH = query(
  `update ticks set plans_evaluated = :plans_evaluated, executions_created = :executions_created,
     windows_rolled = :windows_rolled, finished_at = :finished_at
   where tick_id = :tick_id`,
)
const TENANTS = query(
  ({ among }) => `select distinct tenant_id from plans where ${among('plan_id', 'plan_ids')}`,
  (row: { tenant_id: bigint }) => Number(row.tenant_id),
)
const NAMES = query<{ plan_id: bigint; partner_plan_id: string }>(
  ({ among }) => `select plan_id, partner_plan_id from plans where ${among('plan_id', 'plan_ids')}`,
)

/** The parts that each store implements itself. */
export type OwnPasses = {
  /** Null while another process runs a pass. `keep` is called before each page, and throws once the turn is lost. */
  takeTurn: () => Promise<{ keep: () => Promise<void>; end: () => void | Promise<void> } | null>
  /** The plans that a pass must look at, found by index ranges only, in the order of their visits. */
  listDue: (due: DueRanges) => Promise<PlanIds>
  pages: PageSizes
  /** Completes unfinished updates after a change of a partner. */
  followPartners: () => Promise<void>
  isOutage: PassStore['isOutage']
}
/** May be tens of millions long, as after a long outage. Takes eight bytes an id, a fifth of what a Set takes. */
export type PlanIds = Float64Array

/** The ids of all lists, one list after the other. */
export function joined(lists: readonly PlanIds[]): PlanIds {
  const ids = new Float64Array(lists.reduce((total, list) => total + list.length, 0))
  let end = 0
  for (const list of lists) {
    ids.set(list, end)
    end += list.length
  }
  return ids
}

/** The sizes of a pass's pages. */
export type PageSizes = {
  /** The size of the next page, `max` at most; waits as long as others should have their turn. */
  next: (max: number, isFirst: boolean) => Promise<number>
  /** Gets the duration of the last page, without its commit. */
  note: (page: { plans: number; ms: number }) => void
}

export const createPassStore = (
  base: Base,
  { takeTurn, listDue, pages, followPartners, isOutage }: OwnPasses,
): PassStore => ({
  async takePass() {
    const turn = await takeTurn()
    if (!turn) return null
    return {
      async *duePages(due, pageMax) {
        const planIds = await listDue(due)
        for (let from = 0; from < planIds.length; ) {
          const until = from + (await pages.next(pageMax, from === 0))
          await turn.keep()
          yield [...planIds.subarray(from, until)]
          from = until
        }
      },
      end: async () => turn.end(),
    }
  },

  async beginPass(observed, feed = null) {
    await followPartners()
    return base.write((tx) => begin(tx, observed, feed), { acts: true })
  },

  finishPass: (passId, counts) =>
    base.write(function* (tx) {
      const { real } = yield* tx.times
      yield* tx.run(FINISH, {
        tick_id: passId,
        plans_evaluated: counts.plansEvaluated,
        executions_created: counts.executionsCreated,
        windows_rolled: counts.windowsRolled,
        finished_at: real,
      })
    }),

  listDuePlans: async (due) => [...(await listDue(due))],

  async changeDuePlans(passId, planIds, decisions) {
    const tenants = await base.look((tx) => tx.all(TENANTS, { plan_ids: planIds }))
    return base.write(
      function* (tx) {
        const begun = performance.now()
        const { fired, ...counts } = yield* runPage(tx, { planIds, tenants, decisions }, tx.times)
        yield* writeWakeUps(tx, passId, fired)
        pages.note({ plans: planIds.length, ms: performance.now() - begun })
        return counts
      },
      { tenants, acts: true, onceMore: true },
    )
  },

  isOutage,

  peekPass: () =>
    base.read(function* (tx) {
      // Includes the gap that a pass at this moment would end: it helps decide how early the failsafe begins.
      const at = yield* tx.clock
      const [times, price, volatility] = yield* tx.together(
        tx.all(TIMES, { tick_id: null, limit: PASS_GAPS_SEEN }),
        newestPrice(tx, at),
        volatilityNow(tx),
      )
      return { at, price, volatility, passGapsMs: gapsMs([at, ...times]) }
    }),

  async previewDuePlans(planIds, decisions) {
    // Done for real and then rolled back, so that the preview cannot differ from a pass.
    const undo = new Undo<Preview[]>()
    const tenants = await base.look((tx) => tx.all(TENANTS, { plan_ids: planIds }))
    const work = base.write(
      function* (tx) {
        const { fired } = yield* runPage(tx, { planIds, tenants, decisions }, tx.times)
        const rows = yield* tx.all(NAMES, { plan_ids: planIds })
        const names = new Map(rows.map((row) => [Number(row.plan_id), row.partner_plan_id]))
        undo.value = fired.map((one) => ({ ...one, partnerPlanId: names.get(one.schedule.planId) ?? '' }))
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

/** Records the pass and its price. */
function* begin(tx: WriteTx, observed: ObservedPrice | null, feed: AskedFeed | null): Steps<PassStart> {
  const { real } = yield* tx.times
  if (observed) yield* addPrice(tx, real, observed)
  const tick = yield* tx.get(BEGIN, {
    at: real,
    price: observed?.price ?? null,
    feed: feed?.name ?? null,
    feed_failure: feed?.failure?.slice(0, FAILURE_MAX) ?? null,
  })
  if (!tick) throw new Error('a pass was noted without a number')
  const { passId, at } = tick
  const before = passId - PASSES_KEPT
  const [times, price, volatility] = yield* tx.together(
    tx.all(TIMES, { tick_id: passId, limit: PASS_GAPS_SEEN + 1 }),
    newestPrice(tx, at),
    volatilityNow(tx),
    tx.run(FORGET_PASSES, { before }),
    tx.run(FORGET_EVENTS, { before }),
    tx.run(FORGET_SANDBOX_EVENTS, { before: plus(real, -DAY_MS) }),
  )
  return { passId, at, price, volatility, passGapsMs: gapsMs(times) }
}

class Undo<T> extends Error {
  value: T | undefined
}

// Wake-ups: written in the transaction of the executions they announce, and each claimed once for sending.

/** One for each tenant and pass, however many pages it took; none without an active webhook. */
const WAKE = query(
  ({ rows }) =>
    `insert into webhook_events (tick_id, tenant_id, count, earliest_execution_id, created_at)
     select cast(:tick_id as bigint), n.tenant_id, n.count, n.earliest, cast(:now as bigint)
     from ${rows('wake_ups', { tenant_id: 'integer', count: 'integer', earliest: 'text' }, 'n')}
       join webhooks w on w.tenant_id = n.tenant_id
     where w.status = 'active' order by n.tenant_id
     on conflict (tick_id, tenant_id) do update set count = webhook_events.count + excluded.count`,
)
type EventRow = { tenant_id: bigint; count: bigint; earliest_execution_id: string }
/** When two processes claim the same one at once, the second waits for the first and then finds it claimed. */
const CLAIM = query<EventRow>(
  `update webhook_events set claimed_at = :now where tick_id = :tick_id and claimed_at is null
   returning tenant_id, count, earliest_execution_id`,
)
const ACTIVE = query<TenantRow & WebhookRow>(
  ({ among }) =>
    `select w.*, t.partner_slug, t.environment from webhooks w join tenants t on t.tenant_id = w.tenant_id
     where ${among('w.tenant_id', 'tenants')} and w.status = 'active' order by w.tenant_id`,
)

export function* writeWakeUps(tx: WriteTx, passId: number, fired: readonly Fired[]): Steps<void> {
  if (fired.length === 0) return
  const { real } = yield* tx.times
  const byTenant = Map.groupBy(fired, ({ tenant }) => tenant.tenantId)
  const wake_ups = [...byTenant].map(([tenant_id, of]) => ({
    tenant_id,
    count: of.length,
    earliest: of[0]?.executionId,
  }))
  yield* tx.run(WAKE, { tick_id: passId, now: real, wake_ups })
}

export const createWakeUpStore = ({ write }: Base): WakeUpStore => ({
  claimWakeUps: (passId) =>
    write(function* (tx) {
      const { real } = yield* tx.times
      const events = yield* tx.all(CLAIM, { tick_id: passId, now: real })
      const byTenant = new Map(events.map((event) => [event.tenant_id, event]))
      const rows = yield* tx.all(ACTIVE, { tenants: [...byTenant.keys()] })
      return rows.flatMap((row) => {
        const event = byTenant.get(row.tenant_id)
        if (!event) return []
        const earliest = event.earliest_execution_id as ExecutionId
        return [{ tenant: tenantOf(row), webhook: webhookOf(row), count: Number(event.count), earliest }]
      })
    }),
})

// The single row that says the clock is in doubt, so that every process knows the finding of one pass.

const STANDING = query('select * from clock_disputes', disputeOf)
// The table is locked, because there may be no row to lock, and this hardly ever happens.
const LOCK_TABLE = query('lock table clock_disputes in share row exclusive mode')
const PUT_DISPUTE = query(putInto('clock_disputes', { one: '1' }))
const CLEAR_DISPUTE = query('delete from clock_disputes')

export function createClockStore({ read, write }: Base): ClockStore {
  const readClock: ClockStore['readClock'] = () =>
    read(function* (tx) {
      const [now, standing] = yield* tx.together(tx.present, standingDispute(tx))
      return { now, standing }
    })

  return {
    async decideDispute(decide) {
      // Usually there is nothing to write, and then a pass does not pay for a commit.
      const { now, standing } = await readClock()
      if (standing === null && decide(now, standing) === null) return null
      return write(function* (tx) {
        const [{ real }, , standing] = yield* tx.together(tx.times, tx.lock(LOCK_TABLE), standingDispute(tx))
        const dispute = decide(real, standing)
        yield* dispute
          ? tx.run(PUT_DISPUTE, {
              clock_at: dispute.clockAt,
              witness_at: dispute.witness.at,
              source: dispute.witness.source,
            })
          : tx.run(CLEAR_DISPUTE)
        return dispute
      })
    },

    readClock,
  }
}

/** The dispute that stands. */
export function* standingDispute(tx: Tx): Steps<Dispute | null> {
  return (yield* tx.get(STANDING)) ?? null
}
