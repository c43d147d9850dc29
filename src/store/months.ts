// Everything that is read about a month, from either store.

import type { Activity } from '../core/fees.ts'
import { type Btc, type Usd, ZERO_USD } from '../core/money.ts'
import type { Period } from '../core/month.ts'
import { DAY_MS, earlier, type Instant, later, plus } from '../core/time.ts'
import { newRow } from './digests.ts'
import { ask, breathe, instant, instantOrNull, type Params, type Reader, sql } from './reader.ts'
import { type TenantRow, tenantOf } from './rows/accounts.ts'
import {
  type AdjustmentRow,
  adjustmentOf,
  reportOf,
  TRADE_COLUMNS,
  type TradeRow,
  tradeOf,
} from './rows/ledger.ts'
import { OF_TENANT } from './sql/accounts.ts'
import type { AdjustmentLine, LinePlace, MonthStore, TradeLine, UserLine } from './store.ts'
import { insertInto, selected } from './tables.ts'

export const readMonths = (reader: Reader): Omit<MonthStore, 'fixPeriod' | 'fixTenantPeriod'> => ({
  readActivity: activityReader(reader),
  ...tradeLines(reader),
  ...adjustmentLines(reader),
})

// What a tenant's month comes to, user by user: who was active in it, and what counts as volume.

const IN_PERIOD = 'd.recorded_at >= :start and d.recorded_at < :end'

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

// The adjustments of a period, each with the trade that it corrects, page by page.

/** The columns of the trade, beside those of the adjustment. */
type Row = AdjustmentRow & LineNames & { [column in keyof TradeRow as `trade_${column}`]: TradeRow[column] }

/** The adjustments `a` of the tenants `t` that `scope` lets through, with these columns of their trades `d`. */
const adjustmentsOf = (scope: string, ofTrade: string): string =>
  `select a.*, ${ofTrade}, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id
   from adjustments a join trades d on d.execution_id = a.execution_id
     join tenants t on t.tenant_id = a.tenant_id join users u on u.user_id = a.user_id
     join plans p on p.plan_id = a.plan_id
   where (a.recorded_at, a.execution_id, a.adjustment_id) > (:at, :id, :number) and a.recorded_at < :end
     and ${scope}
   order by a.recorded_at, a.execution_id, a.adjustment_id limit :limit`

const PAGE = sql<Row>(adjustmentsOf(OF_TENANT, selected(TRADE_COLUMNS, 'd', 'trade_')))

const adjustmentLines = (reader: Reader): Pick<MonthStore, 'readAdjustmentLines'> => ({
  async readAdjustmentLines({ start, end }, filter, { after, limit }) {
    const place = {
      at: after?.recordedAt ?? start,
      id: after?.executionId ?? '',
      number: after?.adjustment.adjustmentId ?? 0,
    }
    return (await reader.all(PAGE, { ...filter, ...place, end, limit })).map(changeOf)
  },
})

const changeOf = (row: Row): AdjustmentLine => ({
  ...lineOf(row),
  partnerOrderId: row.partner_order_id ?? row.trade_partner_order_id,
  adjustment: adjustmentOf(row),
  original: tradeOf(
    Object.fromEntries(TRADE_COLUMNS.map((column) => [column, row[`trade_${column}`]])) as Readonly<
      Record<string, unknown>
    > as TradeRow,
  ),
})

// The lines of a trades export: confirmations and adjustments, in one order, page by page.

const COUNT = sql<{ n: bigint }>(
  `select cast(sum(x.n) as bigint) as n from (
     select count(*) as n from trades d join tenants t on t.tenant_id = d.tenant_id
     where ${IN_PERIOD} and ${OF_TENANT}
     union all select count(*) from adjustments d join tenants t on t.tenant_id = d.tenant_id
     where ${IN_PERIOD} and ${OF_TENANT}) x`,
)

/** The lines of the tenants `t` that `scope` lets through. */
const linesOf = (scope: string) => ({
  trades: sql<TradeLineRow>(
    `select ${selected(TRADE_COLUMNS, 'd')},
       t.tenant_id, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id
     from trades d join tenants t on t.tenant_id = d.tenant_id join users u on u.user_id = d.user_id
       join plans p on p.plan_id = d.plan_id
     where (d.recorded_at, d.execution_id) > (:at, :id) and d.recorded_at < :end and ${scope}
     order by d.recorded_at, d.execution_id limit :limit`,
  ),
  adjustments: sql<AdjustmentLineRow>(adjustmentsOf(scope, 'd.partner_order_id as trade_order_id')),
})
const OF_MANY = linesOf(OF_TENANT)
const OF_ONE = linesOf('t.tenant_id = :tenant')

export function tradeLines(
  reader: Reader,
): Pick<MonthStore, 'readTradeLines' | 'readTenantLines' | 'countTradeLines'> {
  async function read(lines: typeof OF_MANY, whose: Params, after: LinePlace, limit: number) {
    // A single lower bound, so that a page begins at its own place in the index and not at the start of the month.
    const params = { ...whose, at: after.recordedAt, id: after.executionId, number: after.number, limit }
    // A trade comes before its adjustments, so that one under the last line's key has been read already.
    const [trades, adjustments] = await reader.together<[TradeLineRow, AdjustmentLineRow]>(
      ask(lines.trades, params),
      ask(lines.adjustments, params),
    )
    return merged(trades.map(tradeLineOf), adjustments.map(adjustmentLineOf)).slice(0, limit)
  }
  return {
    readTradeLines: ({ start, end }, filter, { after, limit }) =>
      read(OF_MANY, { ...filter, end }, after ?? beginningOf(start), limit),

    readTenantLines: ({ tenantId }, { start, end }, { after, limit }) =>
      read(OF_ONE, { tenant: tenantId, end }, after ?? beginningOf(start), limit),

    countTradeLines: async ({ start, end }, filter) =>
      Number((await reader.get(COUNT, { ...filter, start, end }))?.n),
  }
}

const beginningOf = (start: Instant): LinePlace => ({ recordedAt: start, executionId: '', number: 0 })

type LineNames = TenantRow & { partner_user_id: string; partner_plan_id: string }
type TradeLineRow = TradeRow & LineNames
type AdjustmentLineRow = AdjustmentRow & LineNames & { trade_order_id: string }

/** Where a line belongs, and the names a reader knows it by. */
const lineOf = (
  row: LineNames & { execution_id: string; recorded_at: bigint },
): Omit<TradeLine, 'entry' | 'number'> => ({
  tenant: tenantOf(row),
  executionId: row.execution_id as TradeLine['executionId'],
  partnerUserId: row.partner_user_id,
  partnerPlanId: row.partner_plan_id,
  recordedAt: instant(row.recorded_at),
})

const tradeLineOf = (row: TradeLineRow): TradeLine => ({
  ...lineOf(row),
  number: 0,
  entry: { kind: 'trade', report: reportOf(row), receivedAt: instantOrNull(row.received_at) },
})

const adjustmentLineOf = (row: AdjustmentLineRow): TradeLine => ({
  ...lineOf(row),
  number: Number(row.adjustment_id),
  entry: {
    kind: 'adjustment',
    partnerOrderId: row.partner_order_id ?? row.trade_order_id,
    adjustment: adjustmentOf(row),
  },
})

/** Both in the order of an export. Ids are ASCII: comparing them here is comparing them as a store does. */
function merged(trades: TradeLine[], adjustments: TradeLine[]): TradeLine[] {
  if (adjustments.length === 0) return trades
  // The sort is stable: of equal keys the trade stays before its adjustments, and those in their order.
  return [...trades, ...adjustments].sort(
    (a, b) =>
      a.recordedAt - b.recordedAt ||
      (a.executionId < b.executionId ? -1 : a.executionId > b.executionId ? 1 : 0),
  )
}

// What closes a month and holds back what is dated before it, where both stores use the same SQL.

/**
 * Closing a later month waited for the last write that could be dated before its end, so earlier months are final as
 * well.
 */
export const IS_CLOSED = sql<{ closed: bigint }>(
  'select count(*) as closed from (select 1 from closed_months where month >= :month limit 1) x',
)
/** Since when there have been partners, and so anything that could be billed. */
export const FIRST_PARTNER = sql<{ at: bigint | null }>('select min(created_at) as at from partners')
export const CLOSE_MONTH = sql<never>(`${insertInto('closed_months')} on conflict do nothing`)
export const closingParams = ({ month, end }: Period, now: Instant) =>
  newRow('closed_months', { month, period_end: end, closed_at: now })

/** One row: what has been reported until, below which no later write is dated. */
export const REPORT_UNTIL = sql<never>(
  `${insertInto('reported_until', { one: '1' })}
   on conflict (one) do update set at = excluded.at, digest = excluded.digest where reported_until.at < excluded.at`,
)
/** The same of a sandbox alone. */
export const REPORT_SANDBOX_UNTIL = sql<never>(
  'update sandboxes set reported_until = :at where tenant_id = :tenant and reported_until < :at',
)

/**
 * The newest in order, not the latest in time: one dated by a clock that was ahead no longer counts once another has
 * come.
 */
export const NEWEST_FINISHED_PASS = sql<{ at: bigint }>(
  'select at from ticks where finished_at is not null order by tick_id desc limit 1',
)
export const NEWEST_CHANGE = sql<{ at: bigint }>('select at from audit order by audit_id desc limit 1')

// A month in slices: each is a short read, so that serve goes on answering and the write-ahead log can be emptied.

/** How many rows a slice holds at most, unless more of them have the same instant: a few milliseconds of reading. */
const TRADES_PER_SLICE = 2_000
const EXECUTIONS_PER_SLICE = 20_000

type Slice = { tenant: number; start: Instant; end: Instant }

const beyond = (table: string, at: string) =>
  sql<{ at: bigint }>(
    `select ${at} as at from ${table} where tenant_id = :tenant and ${at} >= :start and ${at} < :end
     order by ${at} limit 1 offset :many`,
  )
const TRADE_BEYOND = beyond('trades', 'recorded_at')
const EXECUTION_BEYOND = beyond('executions', 'created_at')

/** Cuts a tenant's period into slices, one after the other and without a gap. */
async function* slicesOf(reader: Reader, { tenant, start, end }: Slice): AsyncGenerator<Slice> {
  for (let from = start; from < end; ) {
    const day = { tenant, start: from, end: earlier(plus(from, DAY_MS), end) }
    const full = await reader.together<[{ at: bigint }, { at: bigint }]>(
      ask(TRADE_BEYOND, { ...day, many: TRADES_PER_SLICE }),
      ask(EXECUTION_BEYOND, { ...day, many: EXECUTIONS_PER_SLICE }),
    )
    const until = full.flat().reduce<Instant>((least, { at }) => earlier(least, instant(at)), day.end)
    const slice = { ...day, end: later(until, plus(from, 1)) }
    yield slice
    from = slice.end
    await breathe()
  }
}
