// One page of a scheduler pass, for a transaction of the scheduler's: each plan is rolled, decided and stored.

import type { ExecutionId } from '../../core/execution.ts'
import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Frequency, Instant } from '../../core/time.ts'
import { leastInstruction, type Schedule } from '../../core/window.ts'
import { DIGESTED, intact } from '../digests.ts'
import { type TenantRow, tenantOf } from '../rows/accounts.ts'
import { type FiredRow, firedParams, type ScheduleRow, scheduleOf, scheduleParams } from '../rows/ledger.ts'
import type { Fired, PassCounts, PlanDecisions } from '../store.ts'
import { assigned, columnsToAdd, selected } from '../tables.ts'
import type { Times } from '../transaction.ts'
import { type Database, insertRows } from './file/connection.ts'
import type { Ledger, Stops } from './plans.ts'

type TermsRow = { plan_id: bigint; frequency: string; amount_usd: bigint; min_tranche: bigint }

export type RunPage = ReturnType<typeof createPageRunner>

type Parts = { ledger: Ledger; stops: Stops }

export function createPageRunner(db: Database, { ledger, stops }: Parts) {
  const sql = prepare(db)
  const tenants = new Map<number, Tenant>()

  function tenantById(tenantId: number): Tenant {
    const tenant = tenants.get(tenantId) ?? tenantOf(sql.tenant.get(tenantId) as TenantRow)
    tenants.set(tenantId, tenant)
    return tenant
  }

  /** The terms of a plan whose row was checked by its digest. */
  const termsOf = (planId: number): TermsRow => intact('plans', sql.terms.get(planId) as TermsRow)

  /** The schedule of the following window, when the present one is over. */
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
    const free = ledger.freeCell(schedule.planId, next, leastInstruction(minTranche, over.amount))
    return ledger.open(schedule.planId, free, minTranche)
  }

  /** Writes the fired executions at the end of a page: in a few statements, each prepared for many rows. */
  function writeFired(fired: readonly FiredRow[]): void {
    sql.addExecutions(fired.map(firedParams))
    ledger.reserve(fired.map(({ schedule, tranche }) => [schedule.windowId, tranche.amount]))
  }

  return (
    planIds: readonly number[],
    { roll, decide, newExecutionId }: PlanDecisions,
    { real, of: timeOf }: Times,
  ): PassCounts & { fired: Fired[] } => {
    const counts: PassCounts = { plansEvaluated: 0, executionsCreated: 0, windowsRolled: 0 }
    const fired: FiredRow[] = []
    let executionId = (sql.latestId.get() ?? null) as ExecutionId | null
    const stopping = stops.users()
    for (const row of sql.awake.all({ plans: JSON.stringify(planIds) })) {
      const stored = scheduleOf(intact('schedules', row))
      const { planId } = stored
      if (stopping.has(row.user_id)) continue
      const tenant = tenantById(Number(row.tenant_id))
      const now = timeOf(tenant.tenantId)
      counts.plansEvaluated += 1
      const rolled = rollIfOver(stored, roll, now)
      if (rolled) counts.windowsRolled += 1
      const { schedule, tranche } = decide(rolled ?? stored, now, real)
      const sameSlot = !rolled && schedule.nextRunAt === stored.nextRunAt
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

/** What changes in a schedule while its plan waits in one slot. */
const IN_SLOT = assigned(
  columnsToAdd(
    'schedules',
    'plan_id',
    'window_id',
    'awake',
    'next_run_at',
    'window_start',
    'window_end',
    'budget',
    'floor',
  ),
)
/** The columns that a plan's digest covers. */
const PLAN_CONTENT = selected(DIGESTED.plans.columns, 'p')

function prepare(db: Database) {
  return {
    // In the order of the ids.
    awake: db.prepare<object, ScheduleRow & { tenant_id: bigint; user_id: bigint; plan_digest: bigint }>(
      `select s.*, ${PLAN_CONTENT}, p.digest as plan_digest from json_each(:plans) due
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
    // The index of a column that is not named is not written.
    putInSlot: db.prepare(`update schedules set ${IN_SLOT} where plan_id = :plan_id`),
    addExecutions: insertRows(db, 'executions', columnsToAdd('executions')),
    latestId: db.prepare<[], string | null>('select max(execution_id) from executions').pluck(),
  }
}

// How many plans a page of a pass has: as many as keep the write lock no longer than others should wait for it. Over
// few plans, a thousand take 20 ms with their commit; over a million, whose pages of the file are all new to the
// cache, 40.

/**
 * How long the work on a page should take, without its commit: when nobody else writes, and when some do. What a commit
 * waits for the disk is the same for every page: on a slow disk, smaller ones would only make it wait more often.
 */
const PAGE_MS = { alone: 15, shared: 4 }
/** Fewer plans would cost the pass more in commits than they spare others in waiting. */
const PLANS_MIN = 100
/** The size of the first page, before any is measured. */
const PLANS_AT_FIRST = 250

type PageSize = {
  /** How many plans the next page has, `max` at most. */
  next(max: number, isShared: boolean): number
  /** Must be called for each page, with its time without the commit. */
  note(page: { plans: number; ms: number }): void
}

export function createPageSize(): PageSize {
  let msPerPlan: number | null = null
  let plansBefore = PLANS_AT_FIRST

  return {
    next(max, isShared) {
      const fit = msPerPlan === null ? plansBefore : PAGE_MS[isShared ? 'shared' : 'alone'] / msPerPlan
      // No more than twice the previous page: one that was quick by chance tells little about the next.
      plansBefore = Math.min(max, Math.max(PLANS_MIN, Math.floor(Math.min(fit, 2 * plansBefore))))
      return plansBefore
    },
    note({ plans, ms }) {
      // A page of few plans, as after a failed one, tells more about a commit than about plans.
      if (plans >= PLANS_MIN) msPerPlan = ms / plans
    },
  }
}
