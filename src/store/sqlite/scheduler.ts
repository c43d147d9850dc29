import type { Instant } from '../../core/instant.ts'
import type { Created, DueRanges, Fired, PassStart, Preview, SchedulerStore } from '../store.ts'
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

  /** Walks one range of one index from a place on, in short reads, so that serve goes on answering. */
  async function collect(name: keyof typeof sql.ranges, walk: Walk, into: Set<number>): Promise<void> {
    const { alike, beyond } = sql.ranges[name]
    let place = { at: walk.from, plan_id: -1n }
    for (;;) {
      const bounds = { ...walk, ...place }
      const rows = await read(() => {
        const first = alike.all({ ...bounds, page: DUE_READ_MAX })
        return [...first, ...beyond.all({ ...bounds, page: DUE_READ_MAX - first.length })]
      })
      for (const row of rows) into.add(Number(row.plan_id))
      const end = rows.at(-1)
      if (!end || rows.length < DUE_READ_MAX) return
      place = end
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  /** What is known to a pass at `now`, whose own row is the last of the table. */
  function known(now: Instant): Omit<PassStart, 'tickId'> {
    return knownAfter(now, sql.tickTimes.all({ limit: TICK_GAPS_READ + 1 }))
  }

  function knownAfter(now: Instant, latestFirst: readonly bigint[]): Omit<PassStart, 'tickId'> {
    const at = latestFirst.map(Number).reverse()
    const tickGapsMs = at.slice(1).map((t, i) => Math.max(0, t - (at[i] ?? t)))
    return { at: now, price: book.newest(now), volatility: book.volatility(), tickGapsMs }
  }

  return {
    acquireTickLock: () => acquireLock(`${file}-tick`),

    beginPass: (observed) =>
      write((now) => {
        if (observed) book.add(now, observed.price, observed.source)
        const { lastInsertRowid } = sql.addTick.run({ at: now, price: observed?.price ?? null })
        sql.forgetTicks.run({ before: Number(lastInsertRowid) - TICKS_KEPT })
        return { tickId: Number(lastInsertRowid), ...known(now) }
      }),

    peekPass: () =>
      read(() => {
        // With the gap that a pass now would end: it belongs to what decides how early the failsafe begins.
        const now = connection.clock()
        return knownAfter(now, [BigInt(now), ...sql.tickTimes.all({ limit: TICK_GAPS_READ })])
      }),

    async listDuePlans({ now, livePrice, leadMs }: DueRanges) {
      const due = new Set<number>()
      await collect('nextRun', { from: FIRST, until: now }, due)
      await collect('failsafe', { from: FIRST, until: now + leadMs }, due)
      if (livePrice === null) await collect('clock', { from: FIRST, until: now }, due)
      else await collect('limit', { from: livePrice, until: LAST }, due)
      return [...due].sort((a, b) => a - b)
    },

    changeDuePlans: (planIds, decisions) =>
      write((now) => {
        const { fired, ...counts } = runPage(planIds, decisions, now)
        return { ...counts, created: byTenant(fired) }
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
/** From one value of a column to another, both included. */
type Walk = { from: bigint; until: bigint | number }

class Undo<T> extends Error {
  value: T | undefined
}

function byTenant(fired: Fired[]): Created[] {
  const created = new Map<number, Created>()
  for (const { tenant, executionId } of fired) {
    const of = created.get(tenant.tenantId)
    if (of) of.count += 1
    else created.set(tenant.tenantId, { tenant, count: 1, earliest: executionId })
  }
  return [...created.values()]
}

/** Below and above every instant and every price. */
const FIRST = -(2n ** 62n)
const LAST = 2n ** 62n

function prepare({ db }: Connection) {
  // A page goes on behind the last row of the one before in two steps, each of which is one walk along the index.
  // As one comparison of (column, plan_id) SQLite would step over all rows with that very value again for each page,
  // and plans by the thousand share the instant at which their slots end.
  const range = (column: string, condition: string) => {
    const select = `select ${column} as at, plan_id from schedules where awake = 1 and ${condition}`
    return {
      alike: db.prepare<object, DueRow>(
        `${select} and ${column} = :at and plan_id > :plan_id order by plan_id limit :page`,
      ),
      beyond: db.prepare<object, DueRow>(
        `${select} and ${column} > :at and ${column} <= :until order by ${column}, plan_id limit :page`,
      ),
    }
  }
  return {
    ranges: {
      nextRun: range('next_run_at', 'next_run_at is not null'),
      failsafe: range('window_end', 'fireable >= floor'),
      limit: range('limit_price', 'limit_price is not null'),
      clock: range('clock_at', 'clock_at is not null'),
    },
    planName: db.prepare<[number], string>('select partner_plan_id from plans where plan_id = ?').pluck(),
    addTick: db.prepare('insert into ticks (at, price) values (:at, :price)'),
    forgetTicks: db.prepare('delete from ticks where tick_id <= :before'),
    tickTimes: db.prepare<object, bigint>('select at from ticks order by tick_id desc limit :limit').pluck(),
    finishTick: db.prepare(
      `update ticks set plans_evaluated = :plans_evaluated, executions_created = :executions_created,
         windows_rolled = :windows_rolled, finished_at = :finished_at
       where tick_id = :tick_id`,
    ),
  }
}
