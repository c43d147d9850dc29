// What is known of each partner's live environment, in a few steps along indexes, however many plans and orders there
// are.

import { FAILED_ORDERS_MIN, ORDERS_SEEN_MS } from '../../../core/alarm-thresholds.ts'
import type { ExecutionId } from '../../../core/execution-id.ts'
import { HOUR_MS, type Instant } from '../../../core/instant.ts'
import type { PartnerStatus } from '../../../core/partner.ts'
import type { PartnerSeen } from '../../../core/vitals.ts'
import type { Stock } from '../../monitoring.ts'
import { instantOrNull } from '../../rows/instant.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { IS_STUCK } from '../../sql/open-due-and-stuck.ts'
import { breathe, type Reader, type Sql, sql } from '../reader.ts'
import { type OpenRow, openOf } from './backlog.ts'

/** Partners read without a break: a few milliseconds. */
const PAGE_PARTNERS = 500
/** For how many partners, those with the most failures, reasons are read; and from how many orders of each. */
const PARTNERS_ASKED = 20
const ORDERS_ASKED = 100

type PartnerRow = TenantRow & {
  status: string
  held: bigint
  polled_at: bigint | null
  confirmed_at: bigint | null
  filled: bigint | null
  failed: bigint | null
  newest_failed: bigint
  stuck: bigint
  first_stuck: string | null
  webhook_status: string | null
  failures: bigint | null
  last_failure_reason: string | null
  last_delivered_at: bigint | null
}
type LateRow = {
  tenant_id: bigint
  kept: bigint
  oldest_at: bigint | null
  unkept: bigint
  first_unkept: string | null
}

/** What a store asks in SQL of its own. */
export type PartnerSql = {
  /** What every tenant has open and due at `:now`. */
  open: Sql<OpenRow>
  page: Sql<PartnerRow>
  lateFills: Sql<LateRow>
}

const STUCK = `from executions e where e.tenant_id = t.tenant_id and ${IS_STUCK}`
const NEWEST = `select usd_amount from trades d where d.tenant_id = t.tenant_id
  order by d.recorded_at desc, d.execution_id desc limit ${FAILED_ORDERS_MIN}`

/**
 * A page of partners. `orders` is SQL for the sums `filled` and `failed` of a tenant `t` after `:hour`, and for what
 * they need besides the other tables.
 */
export const partnersPage = (orders: { filled: string; failed: string; from?: string }): Sql<PartnerRow> =>
  sql(
    `select t.*, r.status, r.held, q.polled_at, w.status as webhook_status,
       w.consecutive_failures as failures, w.last_failure_reason, w.last_delivered_at,
       (select max(d.recorded_at) from trades d where d.tenant_id = t.tenant_id) as confirmed_at,
       ${orders.filled} as filled, ${orders.failed} as failed,
       (select count(*) from (${NEWEST}) n where n.usd_amount is null) as newest_failed,
       (select count(*) ${STUCK}) as stuck, (select min(e.execution_id) ${STUCK}) as first_stuck
     from tenants t join partners r on r.partner_slug = t.partner_slug left join polls q on q.tenant_id = t.tenant_id
       left join webhooks w on w.tenant_id = t.tenant_id ${orders.from ?? ''}
     where t.tenant_id > :after and t.environment = 'live' order by t.tenant_id limit :limit`,
  )

/**
 * Few by nature: each waits for an operator. In a test environment, which nobody looks after, there may be any number.
 * `executions` is that table, with what a store adds to it.
 */
export const lateFills = (executions: string): Sql<LateRow> =>
  sql(
    `select t.tenant_id, cast(sum(x.n) as bigint) as kept, min(x.since) as oldest_at,
       cast(sum(x.unkept) as bigint) as unkept, min(x.first_unkept) as first_unkept
     from (
       select tenant_id, count(*) as n, min(received_at) as since, 0 as unkept, null as first_unkept
       from late_reports where decided_at is null
         and tenant_id in (select tenant_id from tenants where environment = 'live') group by tenant_id
       union all select tenant_id, 0, null, unkept_reports, execution_id
       from ${executions} where unkept_reports > 0) x
     join tenants t on t.tenant_id = x.tenant_id where t.environment = 'live' group by t.tenant_id`,
  )

const REASON = sql<{ failure_reason: string | null }>(
  `select failure_reason from (
     select failure_reason, usd_amount from trades where tenant_id = :tenant
     order by recorded_at desc, execution_id desc limit :orders) d
   where usd_amount is null and failure_reason is not null
   group by failure_reason order by count(*) desc, failure_reason limit 1`,
)

export function partnersReader(
  reader: Reader,
  own: PartnerSql,
): (now: Instant, stock: Stock) => Promise<PartnerSeen[]> {
  async function readLateFills(): Promise<Map<number, PartnerSeen['lateFills']>> {
    const rows = await reader.all(own.lateFills)
    return new Map(
      rows.map(({ tenant_id, kept, oldest_at, unkept, first_unkept }) => [
        Number(tenant_id),
        {
          kept: Number(kept),
          oldestAt: instantOrNull(oldest_at),
          unkept: Number(unkept),
          firstUnkept: first_unkept,
        },
      ]),
    )
  }

  async function addReasons(partners: readonly PartnerSeen[]): Promise<void> {
    const failing = partners
      .filter(({ orders }) => orders.failed > 0)
      .sort((a, b) => b.orders.failed - a.orders.failed)
      .slice(0, PARTNERS_ASKED)
    for (const { tenant, orders } of failing) {
      const row = await reader.get(REASON, { tenant: tenant.tenantId, orders: ORDERS_ASKED })
      orders.commonestReason = row?.failure_reason ?? null
    }
  }

  return async (now, stock) => {
    const open = openOf(await reader.all(own.open, { now }))
    const late = await readLateFills()
    const partners: PartnerSeen[] = []
    // As many hours as there are in the time looked at, including the current one.
    const hour = Math.floor((now - ORDERS_SEEN_MS) / HOUR_MS)
    for (let after = -1; ; ) {
      const rows = await reader.all(own.page, { after, hour, limit: PAGE_PARTNERS })
      for (const row of rows) {
        const tenantId = Number(row.tenant_id)
        const { due = 0, oldestDueAt = null } = open.get(tenantId) ?? {}
        partners.push({
          ...partnerOf(row),
          due,
          oldestDueAt,
          plansSince: stock.plansSince.get(tenantId) ?? null,
          lateFills: late.get(tenantId) ?? null,
        })
      }
      const last = partners.at(-1)
      if (rows.length < PAGE_PARTNERS || last === undefined) break
      after = last.tenant.tenantId
      await breathe()
    }
    await addReasons(partners)
    return partners
  }
}

const partnerOf = (
  row: PartnerRow,
): Omit<PartnerSeen, 'due' | 'oldestDueAt' | 'plansSince' | 'lateFills'> => ({
  tenant: tenantOf(row),
  status: row.status as PartnerStatus,
  held: row.held === 1n,
  polledAt: instantOrNull(row.polled_at),
  confirmedAt: instantOrNull(row.confirmed_at),
  stuck:
    row.first_stuck === null ? null : { count: Number(row.stuck), first: row.first_stuck as ExecutionId },
  orders: {
    filled: Number(row.filled ?? 0n),
    failed: Number(row.failed ?? 0n),
    newestFailed: row.newest_failed >= FAILED_ORDERS_MIN,
    commonestReason: null,
  },
  webhook:
    row.failures === null
      ? null
      : {
          paused: row.webhook_status === 'paused',
          failures: Number(row.failures),
          lastReason: row.last_failure_reason,
          lastDeliveredAt: instantOrNull(row.last_delivered_at),
        },
})
