// billing show: what each partner's month comes to, and what explains its fee.

import type { Row } from '../../billing/csv.ts'
import { bill, statementJson } from '../../billing/statement.ts'
import { createTotals, TOTAL } from '../../billing/totals.ts'
import { formatInstant } from '../../core/instant.ts'
import { formatUsd } from '../../core/money.ts'
import { periodOf } from '../../core/month.ts'
import type { TenantFilter } from '../../store/partners.ts'
import type { Store } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import { print } from '../terminal/print.ts'
import { type Column, renderTable } from '../terminal/table.ts'
import { type Covered, fixPeriodFor } from './month-not-final.ts'

type StatementJson = ReturnType<typeof statementJson>
/** A row of the table; the last one has only what can be added up. */
type Shown = Row<keyof StatementJson | 'per_user_usd'>

export async function showMonths(
  cli: Cli,
  store: Store,
  { months, filter }: { months: readonly string[]; filter: TenantFilter },
): Promise<void> {
  const periods: Covered[] = []
  const statements: StatementJson[] = []
  const shown: Shown[] = []
  for (const month of months) {
    const period = await fixPeriodFor(cli, store, { month, filter })
    periods.push(period)
    for (const tenant of await store.listTenants(filter, periodOf(month).end)) {
      const { statement } = await bill(store, tenant, period)
      const json = statementJson(statement)
      statements.push(json)
      shown.push({ ...json, per_user_usd: formatUsd(statement.tier.perActiveUser) })
    }
  }
  const isRange = months.length > 1
  const table =
    shown.length === 0
      ? 'no partners'
      : await renderTable(
          isRange ? [MONTH, ...COLUMNS] : COLUMNS,
          isRange ? withTotalsOfRange(shown) : withTotals(shown),
        )
  print(cli, statements, () => `${titleOf(periods)}\n\n${table}`)
}

function titleOf(periods: readonly Covered[]): string {
  const [first, last] = [periods[0], periods.at(-1)]
  if (first === undefined || last === undefined) return ''
  const [months, ahead] =
    first === last ? [last.month, 'not yet begun'] : [`${first.month} to ${last.month}`, 'not over yet']
  const until = last.stage === 'ahead' ? ahead : `so far, until ${formatInstant(last.end)}`
  return `${months}, ${last.final ? 'final' : until}`
}

const withTotals = (shown: Shown[]): Shown[] => (shown.length < 2 ? shown : [...shown, totalOf(shown)])

/** Of several months: a total for each partner, and where there are several of them, one of all. */
function withTotalsOfRange(shown: Shown[]): Shown[] {
  const byPartner = Map.groupBy(shown, ({ partner_slug, environment }) => `${partner_slug} ${environment}`)
  const ofPartners = [...byPartner.values()].flatMap((rows) => {
    const [{ partner_slug, environment } = NOBODY] = rows
    return { ...totalOf(rows), partner_slug, environment, month: TOTAL }
  })
  const ofAll = ofPartners.length < 2 ? [] : [{ ...totalOf(shown), partner_slug: '', month: TOTAL }]
  return [...shown, ...ofPartners, ...ofAll]
}

const NOBODY = { partner_slug: null, environment: null }

function totalOf(rows: Shown[]): Shown {
  const totals = createTotals(Object.keys(rows[0] ?? {}) as (keyof Shown)[])
  for (const _ of totals.adding(rows));
  return totals.row()
}

const MONTH: Column<Shown> = { title: 'MONTH', of: (row) => row.month ?? '' }

const COLUMNS: Column<Shown>[] = [
  {
    title: 'PARTNER',
    of: (row) => (row.environment === null ? row.partner_slug : `${row.partner_slug} ${row.environment}`),
  },
  { title: 'TRADES', of: (row) => row.trade_count, right: true },
  { title: 'USERS', of: (row) => row.active_users, right: true },
  { title: 'VOLUME USD', of: (row) => row.volume_usd, right: true },
  { title: 'VOLUME BTC', of: (row) => row.volume_btc, right: true },
  {
    title: 'TIER',
    of: (row) => (row.pricing_tier === null ? '' : `${row.pricing_tier} (${row.pricing_tier_source})`),
  },
  { title: 'BPS', of: (row) => row.rate_bps ?? '', right: true },
  { title: 'VOLUME FEE', of: (row) => row.volume_fee_usd, right: true },
  { title: 'PER USER', of: (row) => row.per_user_usd ?? '', right: true },
  { title: 'USER FEE', of: (row) => row.user_fee_usd, right: true },
  { title: 'MINIMUM', of: (row) => row.minimum_fee_usd ?? '', right: true },
  { title: 'FEE USD', of: (row) => (row.billable === false ? 'not billed' : row.total_fee_usd), right: true },
]
