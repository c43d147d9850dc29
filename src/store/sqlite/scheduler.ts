import type { ExecutionId } from '../../core/id.ts'
import type { Instant } from '../../core/instant.ts'
import type { Price, Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Schedule } from '../../core/schedule.ts'
import { FIRST_VOLATILITY, observe, type Volatility } from '../../core/volatility.ts'
import type { Frequency } from '../../core/window.ts'
import { type ScheduleRow, scheduleOf, scheduleParams } from '../ledger-rows.ts'
import { instant, type TenantRow, tenantOf } from '../rows.ts'
import type { Created, DueRanges, PassCounts, PlanDecisions, SchedulerStore } from '../store.ts'
import type { Connection } from './connection.ts'
import type { Ledger } from './ledger.ts'
import { acquireLock } from './lock.ts'

/** Ids read in one go while looking for due plans: each read ends before the event loop waits long. */
const DUE_READ_MAX = 10_000
const TICK_GAPS_READ = 8
/** Passes kept on record: a week of minutely ones. */
const TICKS_KEPT = 10_080

export function createSchedulerStore(connection: Connection, ledger: Ledger, file: string): SchedulerStore {
  const { read, write } = connection
  const sql = prepare(connection)
  const tenants = new Map<number, Tenant>()

  function tenant(tenantId: number): Tenant {
    const known = tenants.get(tenantId)
    if (known) return known
    const found = tenantOf(sql.tenant.get(tenantId) as TenantRow)
    tenants.set(tenantId, found)
    return found
  }

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

  function rollIfOver(schedule: Schedule, roll: PlanDecisions['roll'], now: Instant): Schedule | null {
    if (now < schedule.windowEnd) return null
    const plan = sql.terms.get(schedule.planId) as TermsRow
    const next = roll(
      {
        start: schedule.windowStart,
        end: schedule.windowEnd,
        frequency: plan.frequency as Frequency,
        amount: plan.amount_usd as Usd,
      },
      now,
    )
    if (!next) return null
    ledger.closeCurrent(schedule.planId, 'ended', now)
    return ledger.open(schedule.planId, next, plan.min_tranche as Usd)
  }

  return {
    acquireTickLock: () => acquireLock(`${file}-tick`),

    beginPass: (observed) =>
      write((now) => {
        const before = volatilityOf(sql.volatility.get())
        const volatility = observed ? observe(before, observed.price, now) : before
        if (observed) {
          sql.addPrice.run({ at: now, price: observed.price, source: observed.source })
          sql.putVolatility.run({
            variance: volatility.variance,
            hours: volatility.hours,
            last_price: volatility.last?.price ?? null,
            last_at: volatility.last?.at ?? null,
          })
        }
        const { lastInsertRowid } = sql.addTick.run({ at: now, price: observed?.price ?? null })
        sql.forgetTicks.run({ before: Number(lastInsertRowid) - TICKS_KEPT })
        const newest = sql.newestPrice.get({ now })
        const at = sql.tickTimes
          .all({ limit: TICK_GAPS_READ + 1 })
          .map(Number)
          .reverse()
        return {
          tickId: Number(lastInsertRowid),
          at: now,
          price: newest ? { price: newest.price as Price, at: instant(newest.at) } : null,
          volatility,
          tickGapsMs: at.slice(1).map((t, i) => Math.max(0, t - (at[i] ?? t))),
        }
      }),

    async listDuePlans({ now, livePrice, leadMs }: DueRanges) {
      const due = new Set<number>()
      await collect('nextRun', FIRST, { now }, due)
      await collect('failsafe', FIRST, { now, until: now + leadMs }, due)
      if (livePrice === null) await collect('clock', FIRST, { now }, due)
      else await collect('limit', livePrice - 1n, {}, due)
      return [...due].sort((a, b) => a - b)
    },

    changeDuePlans: (planIds, { roll, decide, newExecutionId }) =>
      write((now) => {
        const counts: PassCounts = { plansEvaluated: 0, executionsCreated: 0, windowsRolled: 0 }
        const created = new Map<number, Created>()
        let executionId = (sql.latestId.get() ?? null) as ExecutionId | null
        for (const planId of planIds) {
          const row = sql.awake.get(planId)
          if (!row) continue
          counts.plansEvaluated += 1
          const seen = scheduleOf(row)
          const rolled = rollIfOver(seen, roll, now)
          if (rolled) counts.windowsRolled += 1
          const { schedule, tranche } = decide(rolled ?? seen, now)
          sql.putSchedule.run(scheduleParams(schedule))
          if (!tranche) continue
          executionId = newExecutionId(executionId, now)
          const tenantId = sql.addExecution.get({
            execution_id: executionId,
            plan_id: planId,
            window_id: schedule.windowId,
            window_start: schedule.windowStart,
            tranche_index: schedule.trancheIndex - 1,
            amount_usd: tranche.amount,
            trigger_kind: tranche.trigger,
            slot: tranche.slot,
            units: tranche.units,
            price: tranche.price,
            reference_price: tranche.reference,
            reservation_price: tranche.reservationPrice,
            created_at: now,
          })
          // The table's checks stop a reservation that would pass the budget.
          sql.reserve.run({ window_id: schedule.windowId, amount: tranche.amount })
          counts.executionsCreated += 1
          const of = created.get(Number(tenantId))
          if (of) of.count += 1
          else
            created.set(Number(tenantId), {
              tenant: tenant(Number(tenantId)),
              count: 1,
              earliest: executionId,
            })
        }
        return { ...counts, created: [...created.values()] }
      }),

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
type VolatilityRow = { variance: number; hours: number; last_price: bigint | null; last_at: bigint | null }
type TermsRow = { frequency: string; amount_usd: bigint; min_tranche: bigint }

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
    awake: db.prepare<[number], ScheduleRow>('select * from schedules where plan_id = ? and awake = 1'),
    terms: db.prepare<[number], TermsRow>(
      `select frequency, amount_usd, min_tranche
       from plans join tenants using (tenant_id) join partners using (partner_slug) where plan_id = ?`,
    ),
    putSchedule: db.prepare(
      `update schedules set next_run_at = :next_run_at, limit_price = :limit_price, clock_at = :clock_at,
         fireable = :fireable, tranche_index = :tranche_index, slots = :slots, units_per_slot = :units_per_slot,
         units_fired = :units_fired, slot = :slot, reference_price = :reference_price, half_width = :half_width,
         extras_left = :extras_left, next_extra_at = :next_extra_at, awake = 1
       where plan_id = :plan_id`,
    ),
    addExecution: db
      .prepare<object, bigint>(
        `insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index, amount_usd,
           trigger_kind, slot, units, price, reference_price, reservation_price, created_at, status)
         values (:execution_id, (select tenant_id from plans where plan_id = :plan_id), :plan_id, :window_id,
           :window_start, :tranche_index, :amount_usd, :trigger_kind, :slot, :units, :price, :reference_price,
           :reservation_price, :created_at, 'pending')
         returning tenant_id`,
      )
      .pluck(),
    reserve: db.prepare('update windows set reserved = reserved + :amount where window_id = :window_id'),
    latestId: db.prepare<[], string | null>('select max(execution_id) from executions').pluck(),
    tenant: db.prepare<[number], TenantRow>('select * from tenants where tenant_id = ?'),
    addPrice: db.prepare('insert or replace into prices (at, price, source) values (:at, :price, :source)'),
    newestPrice: db.prepare<object, { at: bigint; price: bigint }>(
      'select at, price from prices where at <= :now order by at desc limit 1',
    ),
    volatility: db.prepare<[], VolatilityRow>('select * from volatility'),
    putVolatility: db.prepare(
      `insert or replace into volatility (one, variance, hours, last_price, last_at)
       values (1, :variance, :hours, :last_price, :last_at)`,
    ),
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

function volatilityOf(row: VolatilityRow | undefined): Volatility {
  if (!row) return FIRST_VOLATILITY
  const { variance, hours, last_price, last_at } = row
  const last =
    last_price === null || last_at === null ? null : { price: last_price as Price, at: instant(last_at) }
  return { variance, hours, last }
}
