// Every rule of the ledger, recomputed from executions, trades and adjustments, in SQL that both stores speak. SQLite
// takes what a cross join names first for the outer loop, so the text alone decides that each row is read once.

import { RECORDED } from '../../core/execution.ts'
import { type Btc, formatBtc, formatUsd, type Usd } from '../../core/money.ts'
import type { Dialect } from '../statement.ts'
import { IS_AWAKE, IS_OPEN, leastInstructionOf, TENANT_NAME } from './fragments.ts'

export type Rule = {
  kind: string
  sql: string | ((dialect: Dialect) => string)
  message: (row: Record<string, unknown>) => string
}

const money = (value: unknown): string => formatUsd(value as Usd)

// Every rule names its row as a window (partner, environment, plan, start) or as an execution.
const WINDOW = `${TENANT_NAME} || ' plan ' || p.partner_plan_id as place, w.window_start as start`
const OF_WINDOW = `from windows w cross join plans p cross join tenants t
      where p.plan_id = w.plan_id and t.tenant_id = p.tenant_id`
const EXECUTION = `'execution ' || e.execution_id as place, null as start`

/**
 * The executions `e` of a window `w`. The start, which goes with the window (execution_place), leads along the index of
 * idempotency keys to these alone: by the plan it would read all executions of the plan for each of its windows.
 */
const IN_WINDOW = 'e.plan_id = w.plan_id and e.window_start = w.window_start and e.window_id = w.window_id'

// The whole table in the order of its key. Without this, SQLite may walk along another index and look each row up.
const EACH_EXECUTION = `e.execution_id > ''`
const EACH_TRADE = `d.execution_id > ''`

/** Dollars of the adjustments of an execution `e`. */
const ADJUSTED_USD = `coalesce((select sum(a.usd_amount) from adjustments a where a.execution_id = e.execution_id), 0)`

/** Each rule selects the rows that break it. */
export const LEDGER_RULES: Rule[] = [
  {
    kind: 'window_reserved',
    // Windows without a reservation are checked only where something is open: nearly all windows are over.
    sql: `select ${WINDOW}, w.reserved, x.sum as expected from (
        select w.window_id, cast(coalesce(sum(e.amount_usd), 0) as bigint) as sum from windows w
        left join executions e on ${IN_WINDOW} and ${IS_OPEN}
        where w.reserved <> 0 group by w.window_id
        union all
        select w.window_id, cast(sum(e.amount_usd) as bigint) from executions e cross join windows w
        where ${IS_OPEN} and w.window_id = e.window_id and ${IN_WINDOW} and w.reserved = 0 group by w.window_id) x
      cross join windows w cross join plans p cross join tenants t
      where w.window_id = x.window_id and w.reserved <> x.sum and p.plan_id = w.plan_id and t.tenant_id = p.tenant_id`,
    message: (row) =>
      `reserved is ${money(row.reserved)}, its open executions add up to ${money(row.expected)}`,
  },
  {
    kind: 'window_spent',
    sql: `select ${WINDOW}, w.spent + w.excess as entered, x.sum as expected from (
        select w.window_id, cast(coalesce(sum(coalesce(d.usd_amount, 0) + ${ADJUSTED_USD}), 0) as bigint) as sum
        from windows w left join executions e on ${IN_WINDOW}
        left join trades d on d.execution_id = e.execution_id
        group by w.window_id) x
      cross join windows w cross join plans p cross join tenants t
      where w.window_id = x.window_id and w.spent + w.excess <> x.sum and p.plan_id = w.plan_id
        and t.tenant_id = p.tenant_id`,
    message: (row) =>
      `spent and excess are ${money(row.entered)}, its trades and their adjustments add up to ${money(row.expected)}`,
  },
  {
    // Only an operator's decision puts money outside a budget.
    kind: 'window_excess',
    sql: `select ${WINDOW}, w.excess ${OF_WINDOW} and w.excess > 0 and not exists (
        select 1 from executions e
        where ${IN_WINDOW} and (
          e.trigger_kind = '${RECORDED}' or exists (select 1 from adjustments a where a.execution_id = e.execution_id)
          or exists (select 1 from late_reports l where l.execution_id = e.execution_id and l.accepted_at is not null)))`,
    message: (row) =>
      `has an excess of ${money(row.excess)}, and no operator accepted, adjusted or recorded anything in it`,
  },
  {
    kind: 'window_budget',
    sql: `select ${WINDOW}, w.reserved + w.spent + w.released as used, w.budget ${OF_WINDOW}
        and (w.reserved + w.spent + w.released > w.budget
          or (w.closed_at is not null and w.reserved + w.spent + w.released <> w.budget)
          or (w.closed_at is null and w.released <> 0))`,
    message: (row) => `reserved + spent + released is ${money(row.used)} of a budget of ${money(row.budget)}`,
  },
  {
    kind: 'schedule',
    sql: `select ${WINDOW}, s.fireable, w.budget - w.reserved - w.spent as expected
      from schedules s cross join windows w cross join plans p cross join tenants t
      where w.window_id = s.window_id and p.plan_id = w.plan_id and t.tenant_id = p.tenant_id
        and (s.plan_id <> w.plan_id or w.closed_at is not null or s.budget <> w.budget
          or s.window_start <> w.window_start or s.window_end <> w.window_end
          or s.fireable <> w.budget - w.reserved - w.spent)`,
    message: (row) =>
      `its schedule does not agree: fireable is ${money(row.fireable)}, the window has ${money(row.expected)} left`,
  },
  {
    kind: 'plan_window',
    sql: `select ${TENANT_NAME} || ' plan ' || p.partner_plan_id as place, null as start, p.status
      from plans p join tenants t on t.tenant_id = p.tenant_id
      left join schedules s on s.plan_id = p.plan_id
      left join windows w on w.plan_id = p.plan_id and w.closed_at is null
      where (p.status = 'cancelled') <> (s.plan_id is null) or (p.status = 'cancelled') <> (w.window_id is null)`,
    message: (row) =>
      `a plan that is ${row.status} must have ${row.status === 'cancelled' ? 'no' : 'one'} current window`,
  },
  {
    kind: 'execution_trade',
    sql: `select ${EXECUTION}, e.status, d.status as trade_status from executions e
      left join trades d on d.execution_id = e.execution_id
      where ${EACH_EXECUTION} and (
        (e.status in ('filled', 'partial', 'failed') and d.status is distinct from e.status)
        or (${IS_OPEN} and d.status is not null)
        or (e.status = 'cancelled' and d.status is null and e.cancelled_at is null)
        or (e.status = 'cancelled' and d.status is not null and d.status <> 'cancelled')
        or (e.trigger_kind = '${RECORDED}' and (d.usd_amount is null or e.delivered_count > 0)))`,
    message: (row) => `is ${row.status}, its trade is ${row.trade_status ?? 'missing'}`,
  },
  {
    // A trade is above its reservation only if it was reported so, kept, and accepted by an operator.
    kind: 'trade_amount',
    sql: `select ${EXECUTION}, d.usd_amount, e.amount_usd from trades d cross join executions e
      where ${EACH_TRADE} and e.execution_id = d.execution_id and d.usd_amount > e.amount_usd and not exists (
        select 1 from late_reports l
        where l.execution_id = d.execution_id and l.accepted_at is not null
          and l.partner_order_id = d.partner_order_id and l.usd_amount = d.usd_amount)`,
    message: (row) => `spent ${money(row.usd_amount)} of a reservation of ${money(row.amount_usd)}`,
  },
  {
    // A trade that was refused at first is dated by that report, which an operator accepted, or which came again.
    kind: 'trade_received',
    sql: `select ${EXECUTION} from trades d cross join executions e
      where ${EACH_TRADE} and d.received_at is not null and e.execution_id = d.execution_id and not exists (
        select 1 from late_reports l
        where l.execution_id = d.execution_id and l.decided_at is not null
          and l.partner_order_id = d.partner_order_id and l.received_at = d.received_at)`,
    message: () => 'its trade is dated by no report that it was recorded from',
  },
  {
    kind: 'execution_place',
    sql: `select ${EXECUTION} from executions e cross join plans p cross join windows w
      left join trades d on d.execution_id = e.execution_id
      where ${EACH_EXECUTION} and p.plan_id = e.plan_id and w.window_id = e.window_id
        and (e.tenant_id <> p.tenant_id or w.plan_id <> e.plan_id or w.window_start <> e.window_start
          or d.tenant_id <> e.tenant_id or d.plan_id <> e.plan_id or d.user_id <> p.user_id)`,
    message: () => 'belongs to another plan, window, user or tenant than its records say',
  },
  {
    kind: 'execution_open',
    sql: `select ${EXECUTION}, e.status from executions e cross join plans p cross join users u
      left join stops s on s.user_id = u.user_id and s.ended_at is null
      where ${IS_OPEN} and p.plan_id = e.plan_id and u.user_id = p.user_id and (p.status = 'cancelled' or (u.status = 'disabled' and s.user_id is null))`,
    message: (row) => `is ${row.status} although its plan is cancelled or its user disabled`,
  },
  {
    kind: 'plan_user',
    sql: `select ${TENANT_NAME} || ' plan ' || p.partner_plan_id as place, null as start
      from plans p join tenants t on t.tenant_id = p.tenant_id join users u on u.user_id = p.user_id
      left join stops s on s.user_id = u.user_id and s.ended_at is null
      where p.tenant_id <> u.tenant_id or (p.status = 'active' and u.status = 'disabled' and s.user_id is null)`,
    message: () => 'is active although its user is disabled, or belongs to a user of another tenant',
  },
  {
    kind: 'user_stop',
    sql: `select ${TENANT_NAME} || ' user ' || u.partner_user_id as place, null as start
      from stops s join users u on u.user_id = s.user_id join tenants t on t.tenant_id = u.tenant_id
      where s.tenant_id <> u.tenant_id or (s.ended_at is null and u.status <> 'disabled')`,
    message: () => 'has plans that are being stopped and is not disabled, or is stopped in another tenant',
  },
  {
    kind: 'adjustment_place',
    sql: `select 'adjustment ' || a.adjustment_id as place, null as start
      from adjustments a left join trades d on d.execution_id = a.execution_id
      where d.execution_id is null or d.tenant_id <> a.tenant_id or d.plan_id <> a.plan_id or d.user_id <> a.user_id
        or a.recorded_at < d.recorded_at`,
    message: () =>
      'does not belong to the trade, plan, user or tenant its records say, or was made before the trade',
  },
  {
    // Adjustments may exceed a reservation: an operator decides, and no change is unseen.
    kind: 'adjustment_amount',
    sql: `select ${EXECUTION}, x.usd, x.btc
      from (select a.execution_id,
          cast(coalesce(max(d.usd_amount), 0) + sum(a.usd_amount) as bigint) as usd,
          cast(coalesce(max(d.btc_amount), 0) + sum(a.btc_amount) as bigint) as btc
        from adjustments a cross join trades d where d.execution_id = a.execution_id group by a.execution_id) x
      cross join executions e
      where e.execution_id = x.execution_id and (x.usd < 0 or x.btc < 0 or (x.usd = 0) <> (x.btc = 0))`,
    message: (row) =>
      `its adjustments bring it to ${money(row.usd)} USD and ${formatBtc(row.btc as Btc)} BTC, which no purchase can be`,
  },
  {
    kind: 'late_report',
    sql: `select 'execution ' || l.execution_id as place, null as start from late_reports l
      where (l.accepted_at is not null and (l.decided_at is null or (
        not exists (select 1 from adjustments a where a.execution_id = l.execution_id and a.report_id = l.report_id)
        and not exists (select 1 from trades d where d.execution_id = l.execution_id
          and d.partner_order_id = l.partner_order_id and d.usd_amount = l.usd_amount))))
        or case when exists (select 1 from executions e where e.execution_id = l.execution_id)
          then not exists (
            select 1 from executions e where e.execution_id = l.execution_id and e.tenant_id = l.tenant_id)
          else l.reason <> 'execution_not_found' end`,
    message: () =>
      'has an accepted late fill without a trade or adjustment of its own, or with one of another tenant',
  },
  {
    // An accepted late fill is an adjustment with the amounts of its report, for an order that nothing else holds. One
    // that is older than the columns of its fee, price and time has none.
    kind: 'adjustment_report',
    sql: `select 'adjustment ' || a.adjustment_id as place, null as start
      from adjustments a left join late_reports l on l.report_id = a.report_id
      where a.report_id is not null and (l.execution_id is distinct from a.execution_id or l.accepted_at is null
        or (a.partner_order_id is not null and (
          l.partner_order_id <> a.partner_order_id or l.usd_amount <> a.usd_amount or l.btc_amount <> a.btc_amount
          or exists (select 1 from trades d
            where d.tenant_id = a.tenant_id and d.partner_order_id = a.partner_order_id)))
        or (a.execution_price is not null and (l.execution_price <> a.execution_price
          or coalesce(l.executed_at, l.received_at) <> a.executed_at
          or (a.partner_fee_usd is null) <> (l.partner_fee_usd is null)
          or (a.partner_order_id is not null and l.partner_fee_usd <> a.partner_fee_usd))))`,
    message: () => 'does not say what the accepted report says, or its order is recorded twice',
  },
  {
    // Without the row of an invoice, the number of the last one would be assigned again.
    kind: 'invoice_gone',
    sql: ({ field }) =>
      `select 'invoice ' || x.number as place, null as start, x.subject from (
        select a.subject, ${field('a.detail', 'invoice_number')} as number from audit a
        where a.action in ('billing.issue', 'billing.credit', 'database.carry_invoice')) x
      where x.number is not null and not exists (select 1 from invoices i where i.number = x.number)`,
    message: (row) => `was issued to ${row.subject}, and is not there`,
  },
]

/**
 * The state of a schedule, awake or not, and its smallest instruction follow its plan and its partner. `unless` is a
 * condition on the partner `r` that excludes those whose schedules are behind.
 */
export const followsRule = (unless: string): Rule => ({
  kind: 'schedule_follows',
  sql: `select ${WINDOW}, s.awake, ${IS_AWAKE} as expected
      from schedules s cross join windows w cross join plans p cross join tenants t cross join partners r
      where w.window_id = s.window_id and p.plan_id = w.plan_id and t.tenant_id = p.tenant_id
        and r.partner_slug = t.partner_slug and (s.awake <> ${IS_AWAKE} or s.floor <> ${leastInstructionOf('r.min_tranche', 's.budget')}) ${unless}`,
  message: (row) =>
    row.awake === row.expected
      ? "its schedule's minimum tranche is not the one that its partner has set"
      : `its schedule is ${row.awake ? 'awake' : 'asleep'}, and its plan and partner say that it is not`,
})
