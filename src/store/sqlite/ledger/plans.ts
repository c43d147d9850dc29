// Plans: written by partners, listed for operators.

import type { Usd } from '../../../core/money.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { PlanState } from '../../../core/plan-next-step.ts'
import { intact } from '../../digests.ts'
import type { PlanStore } from '../../plans.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import { type PlanRow, planOf, planParams } from '../../rows/plan.ts'
import { type PlanStateRow, planStateOf } from '../../rows/plan-state.ts'
import { type ScheduleRow, scheduleOf } from '../../rows/schedule.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type UserRow, userOf } from '../../rows/user.ts'
import { type WindowRow, windowOf } from '../../rows/window.ts'
import { SELECT_USER } from '../../sql/accounts.ts'
import {
  INSERT_PLAN,
  IS_HELD,
  LIST_PLANS,
  MIN_TRANCHE,
  PLAN_BY_NAME,
  PLAN_STATE,
  PLAN_STATES,
  PLANS_NAMED,
  UPDATE_PLAN,
  USED_BEFORE_RESET,
  USED_STARTS,
  WINDOWS_OF_PLAN,
} from '../../sql/plans.ts'
import type { Connection } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import type { Ledger } from './windows-and-schedules.ts'

export function createPlanStore(connection: Connection, ledger: Ledger, time: TenantTime): PlanStore {
  const { read, present } = connection
  const sql = prepare(connection)
  const listed = (row: ListedPlanRow) => {
    const plan = planOf(row)
    return { ...plan, tenant: tenantOf(row), window: ledger.current(plan.planId) }
  }

  function stateIn({ tenantId }: Tenant): (row: PlanStateRow) => PlanState {
    const held = sql.held.get({ tenant: tenantId }) === 1n
    const now = time.of(tenantId, present())
    return (row) => ({ ...planStateOf(row), held, now })
  }

  return {
    changePlan: (tenant, ids, decide) =>
      time.write(tenant, (now) => {
        const scope = { tenant: tenant.tenantId }
        const userRow = sql.user.get({ ...scope, partner_user_id: ids.partnerUserId })
        const names = { ...scope, partner_plan_id: ids.partnerPlanId }
        const planRow = sql.plan.get(names)
        const plan = planRow ? planOf(intact('plans', planRow)) : null
        const before = tenant.environment === 'test' ? sql.usedBeforeReset.get(names) : null
        const change = decide(
          {
            user: userRow ? userOf(intact('users', userRow)) : null,
            plan,
            window: plan && ledger.current(plan.planId),
            usedStarts: plan ? sql.usedStarts.all({ plan_id: plan.planId, now }).map(instant) : [],
            usedBeforeReset: instantOrNull(before ?? null),
          },
          now,
        )
        if (change.plan === plan) return plan

        const userId = (planRow ?? userRow)?.user_id as bigint
        const params = planParams(change.plan, { tenantId: tenant.tenantId, userId })
        const planId = plan?.planId ?? Number(sql.insert.run(params).lastInsertRowid)
        if (plan) sql.update.run({ ...params, plan_id: planId })
        if (change.cancelsExecutions) ledger.cancelOpen([planId], now)
        if (change.close) ledger.closeCurrent(planId, change.close, now)
        if (change.open) ledger.open(planId, change.open, sql.minTranche.get(scope) as Usd)
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
        sql.named.all({ partner_plan_id: partnerPlanId }).map((row) => {
          const plan = listed(row)
          const schedule = sql.schedule.get(plan.planId)
          return {
            ...plan,
            windows: sql.windows.all({ plan_id: plan.planId }).map(windowOf),
            schedule: schedule ? scheduleOf(schedule) : null,
          }
        }),
      ),
  }
}

type ListedPlanRow = PlanRow & TenantRow

function prepare({ db }: Connection) {
  return {
    user: db.prepare<object, UserRow>(SELECT_USER),
    plan: db.prepare<object, PlanRow>(PLAN_BY_NAME),
    usedStarts: db.prepare<object, bigint>(USED_STARTS).pluck(),
    usedBeforeReset: db.prepare<object, bigint | null>(USED_BEFORE_RESET).pluck(),
    minTranche: db.prepare<object, bigint>(MIN_TRANCHE).pluck(),
    insert: db.prepare(INSERT_PLAN),
    update: db.prepare(UPDATE_PLAN),
    ofTenant: db.prepare<object, PlanStateRow>(PLAN_STATES),
    oneOfTenant: db.prepare<object, PlanStateRow>(PLAN_STATE),
    held: db.prepare<object, bigint>(IS_HELD).pluck(),
    list: db.prepare<object, ListedPlanRow>(LIST_PLANS),
    named: db.prepare<object, ListedPlanRow>(PLANS_NAMED),
    windows: db.prepare<object, WindowRow>(WINDOWS_OF_PLAN),
    schedule: db.prepare<[number], ScheduleRow>('select * from schedules where plan_id = ?'),
  }
}
