// The model's exports, byte for byte.

import { entriesWithin, entryJson, ownerJson } from './book.ts'
import { bill, fix, type Period, summaryOf, userLineOf } from './months.ts'
import type { State, Tenant } from './state.ts'
import { monthBounds } from './units.ts'

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

const tradeRows = (state: State, period: Period): Row[] =>
  entriesWithin(state.executions, period).map((entry) => ({
    ...ownerJson(entry.execution.tenant),
    ...entryJson(entry),
  }))
