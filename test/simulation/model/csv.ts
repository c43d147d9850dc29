// The model's exports, byte for byte.

import { isFill } from './executions.ts'
import { bill, fix, type Period, summaryOf, userLineOf } from './months.ts'
import type { Adjustment, Execution, State, Tenant } from './state.ts'
import { coins, decimal, dollars, iso, isoOrNull, monthBounds } from './units.ts'

export type ReportKind = 'summary' | 'users' | 'trades'

/** Cells of text that a partner or its users chose. */
const FOREIGN = [
  'partner_slug',
  'partner_user_id',
  'partner_plan_id',
  'execution_id',
  'partner_order_id',
  'failure_reason',
  'pricing_tier',
]

const HEADERS: Record<ReportKind, string> = {
  summary:
    'partner_slug,environment,month,period_start,period_end,currency,final,billable,pricing_tier,' +
    'pricing_tier_source,rate_bps,active_users,active_plans,executions_created,executions_filled,' +
    'executions_partial,executions_failed,executions_cancelled,trade_count,volume_usd,volume_btc,' +
    'average_price_usd,partner_fees_usd,volume_fee_usd,user_fee_usd,minimum_fee_usd,total_fee_usd',
  users:
    'month,partner_slug,environment,partner_user_id,trade_count,volume_usd,volume_btc,average_price_usd,' +
    'partner_fees_usd,fee_usd',
  trades:
    'recorded_at,partner_slug,environment,partner_user_id,partner_plan_id,execution_id,partner_order_id,' +
    'status,usd_amount,btc_amount,execution_price,partner_fee_usd,executed_at,failure_reason',
}

type Row = Record<string, string | number | boolean | null>

export function csv(state: State, month: string, kind: ReportKind): string {
  const period = fix(state, month)
  const rows = kind === 'trades' ? tradeRows(state, period) : billedRows(state, period, kind)
  const names = HEADERS[kind].split(',')
  const lines = rows.map((row) => names.map((name) => cell(name, row[name] ?? '')).join(','))
  return [HEADERS[kind], ...lines].map((line) => `${line}\r\n`).join('')
}

function cell(name: string, value: string | number | boolean): string {
  const text = String(value)
  const safe = FOREIGN.includes(name) && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** The tenants of a month, by partner and environment: a partner that came later is not in it. */
function tenantsOf(state: State, { month }: Period): Tenant[] {
  const { end } = monthBounds(month)
  const there = [...state.tenants.values()].filter(({ partner }) => partner.createdAt < end)
  const key = ({ partner, environment }: Tenant) => `${partner.slug}\0${environment}`
  return there.sort((a, b) => (key(a) < key(b) ? -1 : 1))
}

function billedRows(state: State, period: Period, kind: 'summary' | 'users'): Row[] {
  return tenantsOf(state, period).flatMap((tenant): Row[] => {
    const billed = bill(state, tenant, period)
    if (kind === 'summary') return [summaryOf(billed)]
    const whose = {
      month: period.month,
      partner_slug: tenant.partner.slug,
      environment: tenant.environment,
    }
    return billed.users.map((line) => ({ ...whose, ...userLineOf(line) }))
  })
}

type Line = { at: number; id: string; number: number; row: Row }

function tradeRows(state: State, { start, until }: Period): Row[] {
  const lines: Line[] = []
  const add = (line: Line) => {
    if (start <= line.at && line.at < until) lines.push(line)
  }
  for (const execution of state.executions) {
    const { id, trade, adjustments } = execution
    if (trade) add({ at: trade.recordedAt, id, number: 0, row: fillRow(execution) })
    for (const one of adjustments) {
      add({ at: one.recordedAt, id, number: one.number, row: adjustmentRow(execution, one) })
    }
  }
  lines.sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : a.id > b.id ? 1 : a.number - b.number))
  return lines.map(({ row }) => row)
}

const names = ({ id, tenant, plan }: Execution, recordedAt: number): Row => ({
  recorded_at: iso(recordedAt),
  partner_slug: tenant.partner.slug,
  environment: tenant.environment,
  partner_user_id: plan.user.id,
  partner_plan_id: plan.id,
  execution_id: id,
})

function fillRow(execution: Execution): Row {
  const { trade } = execution
  if (!trade) throw new Error('a row of the trades has a trade')
  const { report, recordedAt, receivedAt } = trade
  const whose = { ...names(execution, recordedAt), partner_order_id: report.order, status: report.status }
  if (!isFill(report)) {
    return { ...whose, executed_at: isoOrNull(report.executedAt), failure_reason: report.reason }
  }
  return {
    ...whose,
    usd_amount: dollars(report.usd),
    btc_amount: coins(report.btc),
    execution_price: decimal(report.price, 2),
    partner_fee_usd: report.fee === null ? null : dollars(report.fee),
    executed_at: iso(report.executedAt ?? receivedAt),
  }
}

function adjustmentRow(execution: Execution, adjustment: Adjustment): Row {
  const { usd, btc, recordedAt, reason, order, fee, price, executedAt } = adjustment
  return {
    ...names(execution, recordedAt),
    partner_order_id: order ?? execution.trade?.report.order ?? null,
    status: 'adjustment',
    usd_amount: dollars(usd),
    btc_amount: coins(btc),
    execution_price: price === null ? null : decimal(price, 2),
    partner_fee_usd: fee === null ? null : dollars(fee),
    executed_at: isoOrNull(executedAt),
    failure_reason: reason,
  }
}
