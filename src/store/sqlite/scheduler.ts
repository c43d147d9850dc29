import type { Instant } from '../../core/instant.ts'
import type { WakeUp } from '../../core/webhook.ts'
import type { DueRanges, Fired, PassStart, Preview, SchedulerStore } from '../store.ts'
import type { Connection } from './connection.ts'
import type { Ledger } from './ledger.ts'
import { acquireLock } from './lock.ts'
import { createPage } from './page.ts'
import type { PriceBook } from './prices.ts'

/** Ids read in one go while looking for due plans: each read ends before the event loop waits long. */
const DUE_READ_MAX = 10_000
const TICK_GAPS_READ = 8
/** Passes kept on record: a week of minutely ones. */
const TICKS_KEPT = 10_080

type Parts = { ledger: Ledger; book: PriceBook; file: string }

export function createSchedulerStore(connection: Connection, { ledger, book, file }: Parts): SchedulerStore {
  const { read, write } = connection
  const sql = prepare(connection)
  const runPage = createPage(connection.db, ledger)

  /**
   * Walks one range of one index in short reads, so that serve goes on answering: the rows behind `from`, and
   * wherever a read ends among rows of one value, the rest of those. No row is passed twice, however many share it.
   */
  async function collect(range: keyof typeof sql.ranges, from: bigint, bounds: object, into: Set<number>) {
    const { beyond, tied } = sql.ranges[range]
    let last: DueRow = { at: from, plan_id: 0n }
    let statement = beyond
    for (;;) {
      const page = await read(() => statement.all({ ...bounds, ...last, page: DUE_READ_MAX }))
      for (const row of page) into.add(Number(row.plan_id))
      const isFull = page.length === DUE_READ_MAX
      if (!isFull && statement === beyond) return
      last = page.at(-1) ?? last
      statement = isFull ? tied : beyond
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  function known(now: Instant): Omit<PassStart, 'tickId'> {
    const at = sql.tickTimes
      .all({ limit: TICK_GAPS_READ + 1 })
      .map(Number)
      .reverse()
    const tickGapsMs = at.slice(1).map((t, i) => Math.max(0, t - (at[i] ?? t)))
    return { at: now, price: book.newest(now), volatility: book.volatility(), tickGapsMs }
  }

  return {
    acquireTickLock: () => acquireLock(`${file}-tick`),

    beginPass: (observed) =>
      write((now) => {
        if (observed) book.add(now, observed.price, observed.source)
        const { lastInsertRowid } = sql.addTick.run({ at: now, price: observed?.price ?? null })
        const before = Number(lastInsertRowid) - TICKS_KEPT
        sql.forgetTicks.run({ before })
        sql.forgetEvents.run({ before })
        return { tickId: Number(lastInsertRowid), ...known(now) }
      }),

    peekPass: () => read(() => known(connection.clock())),

    async listDuePlans({ now, livePrice, leadMs }: DueRanges) {
      const due = new Set<number>()
      await collect('nextRun', FIRST, { now }, due)
      await collect('failsafe', FIRST, { now, until: now + leadMs }, due)
      if (livePrice === null) await collect('clock', FIRST, { now }, due)
      else await collect('limit', livePrice - 1n, {}, due)
      return [...due].sort((a, b) => a - b)
    },

    changeDuePlans: (tickId, planIds, decisions) =>
      write((now) => {
        const { fired, ...counts } = runPage(planIds, decisions, now)
        for (const { tenant, count, earliest } of byTenant(fired)) {
          sql.announce.run({ tick_id: tickId, tenant: tenant.tenantId, count, earliest, now })
        }
        return counts
      }),

    async previewDuePlans(planIds, decisions) {
      // Done for real and then undone: what is shown cannot differ from what would happen.
      const undo = new Undo<Preview[]>()
      await write((now) => {
        const { fired } = runPage(planIds, decisions, now)
        undo.value = fired.map((one) => ({ ...one, partnerPlanId: sql.planName.get(one.planId) ?? '' }))
        throw undo
      }).catch((error) => {
        if (error !== undo) throw error
      })
      return undo.value ?? []
    },

    finishPass: (tickId, counts) =>
      write((now) => {
        sql.finishTick.run({
          tick_id: tickId,
          plans_evaluated: counts.plansEvaluated,
          executions_created: counts.executionsCreated,
          windows_rolled: counts.windowsRolled,
          finished_at: now,
        })
      }),
  }
}

type DueRow = { at: bigint; plan_id: bigint }

class Undo<T> extends Error {
  value: T | undefined
}

function byTenant(fired: Fired[]): WakeUp[] {
  const wakeUps = new Map<number, WakeUp>()
  for (const { tenant, executionId } of fired) {
    const of = wakeUps.get(tenant.tenantId)
    if (of) of.count += 1
    else wakeUps.set(tenant.tenantId, { tenant, count: 1, earliest: executionId })
  }
  return [...wakeUps.values()]
}

/** Below every instant: where a walk along an index begins. */
const FIRST = -(2n ** 62n)

function prepare({ db }: Connection) {
  // `isDue` includes the condition of the partial index that the range walks.
  const range = (column: string, isDue: string) => ({
    beyond: db.prepare<object, DueRow>(
      `select ${column} as at, plan_id from schedules
       where awake = 1 and ${column} > :at and ${isDue} order by ${column}, plan_id limit :page`,
    ),
    tied: db.prepare<object, DueRow>(
      `select ${column} as at, plan_id from schedules
       where awake = 1 and ${column} = :at and plan_id > :plan_id and ${isDue} order by plan_id limit :page`,
    ),
  })
  return {
    ranges: {
      nextRun: range('next_run_at', 'next_run_at <= :now'),
      failsafe: range('window_end', 'fireable >= floor and window_end <= :until and window_start <= :now'),
      limit: range('limit_price', 'limit_price is not null'),
      clock: range('clock_at', 'clock_at is not null and clock_at <= :now'),
    },
    planName: db.prepare<[number], string>('select partner_plan_id from plans where plan_id = ?').pluck(),
    addTick: db.prepare('insert into ticks (at, price) values (:at, :price)'),
    forgetTicks: db.prepare('delete from ticks where tick_id <= :before'),
    tickTimes: db.prepare<object, bigint>('select at from ticks order by tick_id desc limit :limit').pluck(),
    // One event for each tenant and pass, however many pages it took; none without an active webhook.
    announce: db.prepare(
      `insert into webhook_events (tick_id, tenant_id, count, earliest_execution_id, created_at)
       select :tick_id, tenant_id, :count, :earliest, :now from webhooks
       where tenant_id = :tenant and status = 'active'
       on conflict do update set count = count + excluded.count`,
    ),
    forgetEvents: db.prepare('delete from webhook_events where tick_id <= :before'),
    finishTick: db.prepare(
      `update ticks set plans_evaluated = :plans_evaluated, executions_created = :executions_created,
         windows_rolled = :windows_rolled, finished_at = :finished_at
       where tick_id = :tick_id`,
    ),
  }
}
