// Plans: written by partners, listed for operators.

import type { Usd } from '../../../core/money.ts'
import type { PlanState } from '../../../core/next-step.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { PlanStore } from '../../plans.ts'
import { instant } from '../../rows/instant.ts'
import { type PlanRow, planOf, planParams } from '../../rows/plan.ts'
import { type ScheduleRow, scheduleOf } from '../../rows/schedule.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type UserRow, userOf } from '../../rows/user.ts'
import { type WindowRow, windowOf } from '../../rows/window.ts'
import { OF_TENANT, SELECT_USER } from '../../sql/expressions.ts'
import type { Connection } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import type { Ledger } from './ledger.ts'

export function createPlanStore(connection: Connection, ledger: Ledger, time: TenantTime): PlanStore {
  const { read, present } = connection
  const sql = prepare(connection)
  const listed = (row: ListedPlanRow) => {
    const plan = planOf(row)
    return { ...plan, tenant: tenantOf(row), window: ledger.current(plan.planId) }
  }

  function stateIn({ tenantId }: Tenant): (row: PlanStateRow) => PlanState {
    const held = sql.held.get(tenantId) === 1n
    const now = time.of(tenantId, present())
    return (row) => ({ ...planStateOf(row), held, now })
  }

  return {
    changePlan: (tenant, ids, decide) =>
      time.write(tenant, (now) => {
        const scope = { tenant: tenant.tenantId }
        const userRow = sql.user.get({ ...scope, partner_user_id: ids.partnerUserId })
        const planRow = sql.plan.get({ ...scope, partner_plan_id: ids.partnerPlanId })
        const plan = planRow ? planOf(planRow) : null
        const change = decide(
          {
            user: userRow ? userOf(userRow) : null,
            plan,
            window: plan && ledger.current(plan.planId),
            usedStarts: plan ? sql.usedStarts.all({ plan_id: plan.planId, now }).map(instant) : [],
          },
          now,
        )
        if (change.plan === plan) return plan

        const params = { ...scope, ...planParams(change.plan) }
        const planId =
          plan?.planId ?? Number(sql.insert.run({ ...params, user_id: userRow?.user_id }).lastInsertRowid)
        if (plan) sql.update.run({ ...params, plan_id: planId })
        if (change.cancelsExecutions) ledger.cancelOpen([planId], now)
        if (change.close) ledger.closeCurrent(planId, change.close, now)
        if (change.open) ledger.open(planId, change.open, sql.minTranche.get(tenant.tenantId) as Usd)
        ledger.wake(planId)
        return change.plan
      }),

    readPlans: (tenant, { after, limit }) =>
      read(() =>
        sql.ofTenant.all({ tenant: tenant.tenantId, after: after ?? '', limit }).map(stateIn(tenant)),
      ),

    readPlan: (tenant, partnerPlanId) =>
      read(() => {
        const row = sql.oneOfTenant.get({ tenant: tenant.tenantId, partner_plan_id: partnerPlanId })
        return row ? stateIn(tenant)(row) : null
      }),

    listPlans: (filter, { after, limit }) =>
      read(() => sql.list.all({ ...filter, after: after ?? 0, limit }).map(listed)),

    findPlans: (partnerPlanId) =>
      read(() =>
        sql.named.all(partnerPlanId).map((row) => {
          const plan = listed(row)
          const schedule = sql.schedule.get(plan.planId)
          return {
            ...plan,
            windows: sql.windows.all(plan.planId).map(windowOf),
            schedule: schedule ? scheduleOf(schedule) : null,
          }
        }),
      ),
  }
}

type ListedPlanRow = PlanRow & TenantRow
const SELECT_LISTED_PLAN = `
  select p.*, u.partner_user_id, t.partner_slug, t.environment
  from plans p join users u on u.user_id = p.user_id join tenants t on t.tenant_id = p.tenant_id`

/** A plan with its current window and the part of its schedule that its next step depends on, all of it or none. */
type PlanStateRow = PlanRow & {
  user_status: string
  s_next_run_at: bigint | null
  s_fireable: bigint
  s_floor: bigint
} & (WindowRow | { window_id: null })

const SELECT_PLAN_STATE = `
  select w.*, s.next_run_at as s_next_run_at, s.fireable as s_fireable, s.floor as s_floor,
    p.*, u.partner_user_id, u.status as user_status
  from plans p join users u on u.user_id = p.user_id
    left join windows w on w.plan_id = p.plan_id and w.closed_at is null left join schedules s on s.plan_id = p.plan_id
  where p.tenant_id = :tenant`

const planStateOf = (row: PlanStateRow): Omit<PlanState, 'held' | 'now'> => ({
  ...planOf(row),
  userStatus: row.user_status as PlanState['userStatus'],
  window: row.window_id === null ? null : windowOf(row),
  schedule:
    row.s_next_run_at === null
      ? null
      : { nextRunAt: instant(row.s_next_run_at), fireable: row.s_fireable as Usd, floor: row.s_floor as Usd },
})

function prepare({ db }: Connection) {
  return {
    user: db.prepare<object, UserRow>(SELECT_USER),
    plan: db.prepare<object, PlanRow>(
      `select p.*, u.partner_user_id from plans p join users u on u.user_id = p.user_id
       where p.tenant_id = :tenant and p.partner_plan_id = :partner_plan_id`,
    ),
    usedStarts: db
      .prepare<object, bigint>(
        `select distinct window_start from executions where plan_id = :plan_id and window_start >= :now
         order by window_start`,
      )
      .pluck(),
    minTranche: db
      .prepare<[number], bigint>(
        'select min_tranche from partners join tenants using (partner_slug) where tenant_id = ?',
      )
      .pluck(),
    insert: db.prepare(
      `insert into plans (tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled,
         start_date, status, created_at, updated_at)
       values (:tenant, :user_id, :partner_plan_id, :amount_usd, :frequency, :smart_timing_enabled, :start_date,
         :status, :created_at, :updated_at)`,
    ),
    update: db.prepare(
      `update plans set amount_usd = :amount_usd, frequency = :frequency, status = :status,
         smart_timing_enabled = :smart_timing_enabled, start_date = :start_date, updated_at = :updated_at
       where tenant_id = :tenant and plan_id = :plan_id`,
    ),
    ofTenant: db.prepare<object, PlanStateRow>(
      `${SELECT_PLAN_STATE} and p.partner_plan_id > :after order by p.partner_plan_id limit :limit`,
    ),
    oneOfTenant: db.prepare<object, PlanStateRow>(
      `${SELECT_PLAN_STATE} and p.partner_plan_id = :partner_plan_id`,
    ),
    held: db
      .prepare<[number], bigint>(
        'select held from partners join tenants using (partner_slug) where tenant_id = ?',
      )
      .pluck(),
    list: db.prepare<object, ListedPlanRow>(
      `${SELECT_LISTED_PLAN} where p.plan_id > :after and ${OF_TENANT} order by p.plan_id limit :limit`,
    ),
    named: db.prepare<[string], ListedPlanRow>(
      `${SELECT_LISTED_PLAN} where p.partner_plan_id = ? order by p.plan_id`,
    ),
    windows: db.prepare<[number], WindowRow>(
      'select * from windows where plan_id = ? order by window_start, window_id',
    ),
    schedule: db.prepare<[number], ScheduleRow>('select * from schedules where plan_id = ?'),
  }
}
