import type { Usd } from '../../../core/money.ts'
import type { PlanTerms } from '../../../core/plan.ts'
import { instantOrNull, type PlanRow, planOf, type UserRow, userOf } from '../../rows.ts'
import type { PlanStore } from '../../store.ts'
import type { Connection } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import type { Ledger } from './ledger.ts'

export function createPlanStore({ db }: Connection, ledger: Ledger, time: TenantTime): PlanStore {
  const sql = {
    user: db.prepare<object, UserRow>(
      'select * from users where tenant_id = :tenant and partner_user_id = :partner_user_id',
    ),
    plan: db.prepare<object, PlanRow>(
      `select p.*, u.partner_user_id from plans p join users u on u.user_id = p.user_id
       where p.tenant_id = :tenant and p.partner_plan_id = :partner_plan_id`,
    ),
    latestUsedStart: db
      .prepare<[number], bigint | null>('select max(window_start) from executions where plan_id = ?')
      .pluck(),
    minTranche: db
      .prepare<[number], bigint>(
        'select min_tranche from partners join tenants using (partner_slug) where tenant_id = ?',
      )
      .pluck(),
    insert: db
      .prepare(
        `insert into plans (tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled,
           start_date, status, created_at, updated_at)
         values (:tenant, (select user_id from users where tenant_id = :tenant and partner_user_id = :partner_user_id),
           :partner_plan_id, :amount_usd, :frequency, :smart_timing_enabled, :start_date, :status, :created_at,
           :updated_at)
         returning plan_id`,
      )
      .pluck(),
    update: db.prepare(
      `update plans set amount_usd = :amount_usd, frequency = :frequency, status = :status,
         smart_timing_enabled = :smart_timing_enabled, start_date = :start_date, updated_at = :updated_at
       where tenant_id = :tenant and plan_id = :plan_id`,
    ),
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
            latestUsedStart: plan && instantOrNull(sql.latestUsedStart.get(plan.planId) ?? null),
          },
          now,
        )
        if (change.plan === plan) return plan

        const params = { ...scope, ...termsParams(change.plan) }
        const planId = plan?.planId ?? Number(sql.insert.get(params))
        if (plan) sql.update.run({ ...params, plan_id: planId })
        if (change.cancelsExecutions) ledger.cancelOpen(planId, now)
        if (change.close) ledger.closeCurrent(planId, change.close, now)
        if (change.open) ledger.open(planId, change.open, sql.minTranche.get(tenant.tenantId) as Usd)
        ledger.wake(planId)
        return change.plan
      }),
  }
}

const termsParams = (plan: PlanTerms) => ({
  partner_user_id: plan.partnerUserId,
  partner_plan_id: plan.partnerPlanId,
  amount_usd: plan.amount,
  frequency: plan.frequency,
  smart_timing_enabled: plan.smartTimingEnabled ? 1 : 0,
  start_date: plan.startDate,
  status: plan.status,
  created_at: plan.createdAt,
  updated_at: plan.updatedAt,
})
