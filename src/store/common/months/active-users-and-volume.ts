// What a tenant's month comes to, user by user: who was active in it, and what counts as volume.

import type { Activity } from '../../../core/fees.ts'
import { type Btc, type Usd, ZERO_USD } from '../../../core/money.ts'
import type { MonthStore, UserLine } from '../../months.ts'
import { ask, type Reader, sql } from '../reader.ts'
import { slicesOf } from './read-in-slices.ts'

export const IN_PERIOD = 'd.recorded_at >= :start and d.recorded_at < :end'

type UserSums = { partner_user_id: string; volume: bigint; btc: bigint; fees: bigint }
type LineSums = UserSums & { trades: bigint }
type PlanSums = LineSums & { plan_id: bigint }
type Outcome = { status: string; n: bigint }

const total = (column: string, name: string): string =>
  `cast(coalesce(sum(d.${column}), 0) as bigint) as ${name}`

/**
 * How many trades of each plan, and what they add up to. A sum of integers is exact, and fails rather than overflows.
 */
const BY_PLAN = sql<PlanSums>(
  `select u.partner_user_id, x.plan_id, x.trades, x.volume, x.btc, x.fees from (
     select d.user_id, d.plan_id, count(*) as trades, ${total('usd_amount', 'volume')}, ${total('btc_amount', 'btc')},
       ${total('partner_fee_usd', 'fees')}
     from trades d where d.tenant_id = :tenant and ${IN_PERIOD} and d.status in ('filled', 'partial')
     group by d.plan_id, d.user_id) x
   join users u on u.user_id = x.user_id`,
)
const ADJUSTED = sql<UserSums>(
  `select u.partner_user_id, x.volume, x.btc, x.fees from (
     select d.user_id, ${total('usd_amount', 'volume')}, ${total('btc_amount', 'btc')},
       ${total('partner_fee_usd', 'fees')}
     from adjustments d where d.tenant_id = :tenant and ${IN_PERIOD} group by d.user_id) x
   join users u on u.user_id = x.user_id`,
)
const OUTCOMES = sql<Outcome>(
  `select d.status, count(*) as n from trades d where d.tenant_id = :tenant and ${IN_PERIOD} group by d.status`,
)
const CREATED = sql<{ n: bigint }>(
  `select count(*) as n from executions
   where tenant_id = :tenant and created_at >= :start and created_at < :end`,
)
const CANCELLED = sql<{ n: bigint }>(
  `select count(*) as n from executions
   where tenant_id = :tenant and cancelled_at is not null and cancelled_at >= :start and cancelled_at < :end`,
)

export const activityReader =
  (reader: Reader): MonthStore['readActivity'] =>
  async (tenant, period) => {
    const lines = new Map<string, UserLine>()
    const plans = new Set<bigint>()
    const activity = { ...NO_ACTIVITY }
    for await (const scope of slicesOf(reader, { ...period, tenant: tenant.tenantId })) {
      const [byPlan, adjusted, outcomes, created, cancelled] = await reader.together<
        [PlanSums, UserSums, Outcome, { n: bigint }, { n: bigint }]
      >(
        ask(BY_PLAN, scope),
        ask(ADJUSTED, scope),
        ask(OUTCOMES, scope),
        ask(CREATED, scope),
        ask(CANCELLED, scope),
      )
      for (const row of byPlan) plans.add(row.plan_id)
      for (const row of [...byPlan, ...adjusted.map(withoutTrades)]) {
        const line = added(lines.get(row.partner_user_id), row)
        lines.set(row.partner_user_id, line)
        activity.volume = (activity.volume + row.volume) as Usd
        activity.btc = (activity.btc + row.btc) as Btc
        activity.partnerFees = (activity.partnerFees + row.fees) as Usd
      }
      const count = (status: string): number => Number(outcomes.find((one) => one.status === status)?.n ?? 0n)
      activity.executionsCreated += Number(created[0]?.n)
      activity.executionsFilled += count('filled')
      activity.executionsPartial += count('partial')
      activity.executionsFailed += count('failed')
      activity.executionsCancelled += count('cancelled') + Number(cancelled[0]?.n)
    }
    const users = [...lines.values()].sort((a, b) => (a.partnerUserId < b.partnerUserId ? -1 : 1))
    // Somebody whose only entry is an adjustment has a line, and is not active.
    const activeUsers = users.filter(({ trades }) => trades > 0).length
    return { activity: { ...activity, activeUsers, activePlans: plans.size }, users }
  }

const NO_ACTIVITY: Activity = {
  activeUsers: 0,
  activePlans: 0,
  executionsCreated: 0,
  executionsFilled: 0,
  executionsPartial: 0,
  executionsFailed: 0,
  executionsCancelled: 0,
  volume: ZERO_USD,
  btc: 0n as Btc,
  partnerFees: ZERO_USD,
}

const added = (line: UserLine | undefined, row: LineSums): UserLine => ({
  partnerUserId: row.partner_user_id,
  trades: (line?.trades ?? 0) + Number(row.trades),
  volume: ((line?.volume ?? 0n) + row.volume) as Usd,
  btc: ((line?.btc ?? 0n) + row.btc) as Btc,
  partnerFees: ((line?.partnerFees ?? 0n) + row.fees) as Usd,
})

const withoutTrades = (row: UserSums): LineSums => ({ ...row, trades: 0n })
