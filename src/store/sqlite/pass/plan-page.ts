// One page of a scheduler pass, for a transaction of the scheduler's: each plan is rolled, decided and stored.

import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Frequency } from '../../../core/frequency.ts'
import type { Instant } from '../../../core/instant.ts'
import { leastInstruction } from '../../../core/least-instruction.ts'
import type { Usd } from '../../../core/money.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { Schedule } from '../../../core/schedule-state.ts'
import { intact } from '../../digests.ts'
import type { Fired, PassCounts, PlanDecisions } from '../../passes.ts'
import { type FiredRow, firedParams } from '../../rows/fired.ts'
import { type ScheduleRow, scheduleOf, scheduleParams } from '../../rows/schedule.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import type { Database } from '../file/connection.ts'
import { insertRows } from '../file/insert-rows.ts'
import type { Stops } from '../ledger/disable-user.ts'
import type { Ledger } from '../ledger/windows-and-schedules.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'

type TermsRow = { plan_id: bigint; frequency: string; amount_usd: bigint; min_tranche: bigint }

export type RunPage = ReturnType<typeof createPageRunner>

type Parts = { ledger: Ledger; stops: Stops; time: TenantTime }

export function createPageRunner(db: Database, { ledger, stops, time }: Parts) {
  const sql = prepare(db)
  const tenants = new Map<number, Tenant>()

  function tenantById(tenantId: number): Tenant {
    const tenant = tenants.get(tenantId) ?? tenantOf(sql.tenant.get(tenantId) as TenantRow)
    tenants.set(tenantId, tenant)
    return tenant
  }

  /** What a plan wants, once its row is known to be what was stored. */
  const termsOf = (planId: number): TermsRow => intact('plans', sql.terms.get(planId) as TermsRow)

  /** The schedule of the window that follows, when the one seen is over. */
  function rollIfOver(schedule: Schedule, roll: PlanDecisions['roll'], now: Instant): Schedule | null {
    if (now < schedule.windowEnd) return null
    const plan = termsOf(schedule.planId)
    const over = {
      start: schedule.windowStart,
      end: schedule.windowEnd,
      frequency: plan.frequency as Frequency,
      amount: plan.amount_usd as Usd,
    }
    const next = roll(over, now)
    if (!next) return null
    ledger.closeCurrent(schedule.planId, 'ended', now)
    const minTranche = plan.min_tranche as Usd
    const free = ledger.freeSlot(schedule.planId, next, leastInstruction(minTranche, over.amount))
    return ledger.open(schedule.planId, free, minTranche)
  }

  /** What fired, as a page writes it at its end: in a few statements, each prepared for many rows. */
  function writeFired(fired: readonly FiredRow[]): void {
    sql.addExecutions(fired.map(firedParams))
    ledger.reserve(fired.map(({ schedule, tranche }) => [schedule.windowId, tranche.amount]))
  }

  return (
    planIds: readonly number[],
    { roll, decide, newExecutionId }: PlanDecisions,
    real: Instant,
  ): PassCounts & { fired: Fired[] } => {
    const counts: PassCounts = { plansEvaluated: 0, executionsCreated: 0, windowsRolled: 0 }
    const fired: FiredRow[] = []
    let executionId = (sql.latestId.get() ?? null) as ExecutionId | null
    const timeOf = time.ofTenants(real)
    const isStopping = stops.ofPlans()
    for (const row of sql.awake.all({ plans: JSON.stringify(planIds) })) {
      const seen = scheduleOf(intact('schedules', row))
      const { planId } = seen
      if (isStopping(planId)) continue
      const tenant = tenantById(Number(row.tenant_id))
      const now = timeOf(tenant.tenantId)
      counts.plansEvaluated += 1
      const rolled = rollIfOver(seen, roll, now)
      if (rolled) counts.windowsRolled += 1
      const { schedule, tranche } = decide(rolled ?? seen, now, real)
      const sameSlot = !rolled && schedule.nextRunAt === seen.nextRunAt
      const put = sameSlot ? sql.putInSlot : sql.putSchedule
      put.run(scheduleParams(schedule))
      if (!tranche) continue
      if (!rolled) intact('plans', row, row.plan_digest)
      executionId = newExecutionId(executionId, real)
      fired.push({ tenant, executionId, planId, tranche, schedule, at: now })
    }
    counts.executionsCreated = fired.length
    writeFired(fired)
    return { ...counts, fired }
  }
}

const EXECUTION_COLUMNS = [
  'execution_id',
  'tenant_id',
  'plan_id',
  'window_id',
  'window_start',
  'tranche_index',
  'amount_usd',
  'trigger_kind',
  'slot',
  'units',
  'price',
  'reference_price',
  'reservation_price',
  'created_at',
  'status',
  'digest',
] as const

/** What changes in a schedule while its plan waits in one slot. */
const IN_SLOT = `limit_price = :limit_price, clock_at = :clock_at, fireable = :fireable,
  tranche_index = :tranche_index, slots = :slots, units_per_slot = :units_per_slot, units_fired = :units_fired,
  slot = :slot, reference_price = :reference_price, half_width = :half_width, extras_left = :extras_left,
  next_extra_at = :next_extra_at, digest = :digest`

function prepare(db: Database) {
  return {
    // In the order of the ids.
    awake: db.prepare<object, ScheduleRow & { tenant_id: bigint; plan_digest: bigint }>(
      `select s.*, p.tenant_id, p.user_id, p.partner_plan_id, p.amount_usd, p.frequency, p.smart_timing_enabled,
         p.start_date, p.created_at, p.digest as plan_digest from json_each(:plans) due
       cross join schedules s on s.plan_id = due.value cross join plans p on p.plan_id = s.plan_id
       where s.awake = 1`,
    ),
    tenant: db.prepare<[number], TenantRow>('select * from tenants where tenant_id = ?'),
    terms: db.prepare<[number], TermsRow>(
      `select plans.*, min_tranche
       from plans join tenants using (tenant_id) join partners using (partner_slug) where plan_id = ?`,
    ),
    putSchedule: db.prepare(
      `update schedules set next_run_at = :next_run_at, awake = 1, ${IN_SLOT} where plan_id = :plan_id`,
    ),
    // A column that is not named causes no write to its index.
    putInSlot: db.prepare(`update schedules set ${IN_SLOT} where plan_id = :plan_id`),
    addExecutions: insertRows(db, 'executions', EXECUTION_COLUMNS),
    latestId: db.prepare<[], string | null>('select max(execution_id) from executions').pluck(),
  }
}
