import { STUCK_DELIVERIES } from '../../../core/execution.ts'
import {
  type ExecutionRow,
  executionOf,
  type ReportRow,
  reportOf,
  type ScheduleRow,
  scheduleOf,
  type WindowRow,
  windowOf,
} from '../../ledger-rows.ts'
import {
  instant,
  instantOrNull,
  type PartnerRow,
  type PlanRow,
  partnerOf,
  planOf,
  type TenantRow,
  tenantOf,
  type UserRow,
  userOf,
} from '../../rows.ts'
import type { ListingStore } from '../../store.ts'
import type { AuditLog } from '../accounts/audit.ts'
import type { Connection } from '../file/connection.ts'
import { adjustmentsOf } from './adjustments.ts'
import { type TradeRow, tradeOf } from './executions.ts'
import type { Ledger } from './ledger.ts'

const EXECUTION = `
  select e.*, p.partner_plan_id, u.partner_user_id, t.partner_slug, t.environment
  from executions e join plans p on p.plan_id = e.plan_id join users u on u.user_id = p.user_id
    join tenants t on t.tenant_id = e.tenant_id`
const PLAN = `
  select p.*, u.partner_user_id, t.partner_slug, t.environment
  from plans p join users u on u.user_id = p.user_id join tenants t on t.tenant_id = p.tenant_id`
const OF_TENANT =
  '(:slug is null or t.partner_slug = :slug) and (:environment is null or t.environment = :environment)'

export function createListingStore({ db, read }: Connection, ledger: Ledger, audit: AuditLog): ListingStore {
  const sql = {
    partners: db.prepare<[], PartnerRow>('select * from partners order by created_at, partner_slug'),
    users: db.prepare<object, UserRow & TenantRow>(
      `select u.*, t.partner_slug, t.environment from users u join tenants t using (tenant_id)
       where u.tenant_id = :tenant and u.user_id > :after order by u.user_id limit :limit`,
    ),
    plans: db.prepare<object, PlanRow & TenantRow>(
      `${PLAN} where p.plan_id > :after and ${OF_TENANT} order by p.plan_id limit :limit`,
    ),
    plansNamed: db.prepare<[string], PlanRow & TenantRow>(
      `${PLAN} where p.partner_plan_id = ? order by p.plan_id`,
    ),
    windows: db.prepare<[number], WindowRow>(
      'select * from windows where plan_id = ? order by window_start, window_id',
    ),
    schedule: db.prepare<[number], ScheduleRow>('select * from schedules where plan_id = ?'),
    executions: db.prepare<object, ExecutionRow & TenantRow>(
      `${EXECUTION} where e.execution_id > :after and ${OF_TENANT}
         and (:status is null or e.status = :status)
         and (:deliveries is null or (e.status = 'sent' and e.delivered_count >= :deliveries))
       order by e.execution_id limit :limit`,
    ),
    execution: db.prepare<[string], ExecutionRow & TenantRow>(`${EXECUTION} where e.execution_id = ?`),
    trade: db.prepare<[string], TradeRow>('select * from trades where execution_id = ?'),
    lateFills: db.prepare<object, LateRow>(
      `select * from late_reports where report_id > :after and status in ('filled', 'partial')
       order by report_id limit :limit`,
    ),
  }

  const adjustments = adjustmentsOf(db)
  const executionRow = (row: ExecutionRow & TenantRow) => ({ ...executionOf(row), tenant: tenantOf(row) })
  const planRow = (row: PlanRow & TenantRow) => {
    const plan = planOf(row)
    return { ...plan, tenant: tenantOf(row), window: ledger.current(plan.planId) }
  }

  return {
    listPartners: () => read(() => sql.partners.all().map(partnerOf)),

    listUsers: (tenant, { after, limit }) =>
      read(() => sql.users.all({ tenant: tenant.tenantId, after: after ?? 0, limit }).map(listedUser)),

    listPlans: (filter, { after, limit }) =>
      read(() => sql.plans.all({ ...filter, after: after ?? 0, limit }).map(planRow)),

    findPlans: (partnerPlanId) =>
      read(() =>
        sql.plansNamed.all(partnerPlanId).map((row) => {
          const plan = planRow(row)
          const schedule = sql.schedule.get(plan.planId)
          return {
            ...plan,
            windows: sql.windows.all(plan.planId).map(windowOf),
            schedule: schedule ? scheduleOf(schedule) : null,
          }
        }),
      ),

    listExecutions: ({ slug, environment, status, stuck }, { after, limit }) =>
      read(() => {
        const deliveries = stuck ? STUCK_DELIVERIES : null
        const params = { slug, environment, status, deliveries, after: after ?? '', limit }
        return sql.executions.all(params).map(executionRow)
      }),

    findExecution: (executionId) =>
      read(() => {
        const row = sql.execution.get(executionId)
        const window = row && ledger.find(row.window_id)
        if (!row || !window) return null
        const trade = sql.trade.get(executionId)
        return {
          execution: executionRow(row),
          window,
          trade: trade ? tradeOf(trade) : null,
          adjustments: adjustments(executionId),
        }
      }),

    listLateFills: ({ after, limit }) =>
      read(() =>
        sql.lateFills.all({ after: after ?? 0, limit }).map((row) => ({
          reportId: Number(row.report_id),
          execution: executionRow(sql.execution.get(row.execution_id) as ExecutionRow & TenantRow),
          report: reportOf(row),
          receivedAt: instant(row.received_at),
          acceptedAt: instantOrNull(row.accepted_at),
        })),
      ),

    listAudit: (page) => read(() => audit.list(page)),
  }
}

const listedUser = (row: UserRow & TenantRow) => ({
  ...userOf(row),
  tenant: tenantOf(row),
  erasedAt: instantOrNull(row.erased_at),
  cursor: Number(row.user_id),
})

type LateRow = ReportRow & {
  report_id: bigint
  execution_id: string
  received_at: bigint
  accepted_at: bigint | null
}
