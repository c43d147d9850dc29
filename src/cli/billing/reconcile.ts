// billing reconcile: whether the figures of a month, or of several, agree in every way they can be had.

import { type ReconciledMonth, reconcile } from '../../billing/reconcile.ts'
import { counted } from '../../core/counted.ts'
import { type Btc, formatBtc, formatUsd, type Usd } from '../../core/money.ts'
import type { Fault } from '../../store/check.ts'
import type { TenantFilter } from '../../store/partners.ts'
import type { Store } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import { EXIT } from '../shared/exit-codes.ts'
import { note, print } from '../terminal/print.ts'
import { type Column, renderTable } from '../terminal/table.ts'
import { fixPeriodFor, noteStage } from './month-not-final.ts'

export async function proveMonths(
  cli: Cli,
  store: Store,
  { months, filter, isYear }: { months: readonly string[]; filter: TenantFilter; isYear: boolean },
): Promise<void> {
  const periods = []
  for (const month of months) {
    const period = await fixPeriodFor(cli, store, { month, filter })
    noteStage(cli, period)
    periods.push(period)
  }
  const { tenants, months: proved, faults } = await reconcile(store, periods, filter)
  const findings = [...faults, ...proved.flatMap((one) => one.findings)]
  const ok = findings.length === 0
  const json = {
    ok,
    // As it was for a single month, before there were several.
    month: months.length === 1 ? (months[0] ?? null) : null,
    from: months[0] ?? null,
    to: months.at(-1) ?? null,
    final: proved.every(({ final }) => final),
    tenants,
    ...sumsJson(totalOf(proved)),
    findings,
    months: proved.map((one) => ({
      month: one.month,
      ok: one.findings.length === 0,
      final: one.final,
      ...sumsJson(one),
    })),
  }
  const table = ok ? '' : await renderTable(FINDING_COLUMNS, findings)
  print(cli, json, () =>
    ok
      ? inWords(
          isYear ? fromFirstTrade(proved) : proved,
          `${filter.environment}, ${counted(tenants, 'partner')}`,
        )
      : table,
  )
  if (ok) return
  note(cli, 'tranche check says more about the ledger.')
  cli.exitWith(EXIT.found)
}

type Sums = Pick<ReconciledMonth, 'trades' | 'volume' | 'btc'>

const totalOf = (months: readonly ReconciledMonth[]): Sums =>
  months.reduce<Sums>(
    (sum, one) => ({
      trades: sum.trades + one.trades,
      volume: (sum.volume + one.volume) as Usd,
      btc: (sum.btc + one.btc) as Btc,
    }),
    { trades: 0, volume: 0n as Usd, btc: 0n as Btc },
  )

const sumsJson = ({ trades, volume, btc }: Sums) => ({
  trades,
  volume_usd: formatUsd(volume),
  volume_btc: formatBtc(btc),
})

/** A year whose first months had nobody in them begins when something was bought. */
function fromFirstTrade(months: readonly ReconciledMonth[]): readonly ReconciledMonth[] {
  const first = months.findIndex(({ trades }) => trades > 0)
  return months.slice(first === -1 ? -1 : first)
}

/** A line for each month, and for several one of all. `who` says whose they are. */
function inWords(months: readonly ReconciledMonth[], who: string): string {
  const lines = months.map(
    ({ month, trades }) => `${month}: users, trades and summary agree (${who}, ${counted(trades, 'trade')}).`,
  )
  if (months.length < 2) return lines.join('\n')
  const { trades, volume } = totalOf(months)
  const range = `${months[0]?.month} to ${months.at(-1)?.month}`
  const sums = `${who}, ${counted(trades, 'trade')}, ${formatUsd(volume)} USD`
  return [...lines, `${range}: ${counted(months.length, 'month')} agree (${sums}).`].join('\n')
}

const FINDING_COLUMNS: Column<Fault>[] = [
  { title: 'WHAT', of: (row) => row.kind },
  { title: 'WHERE', of: (row) => row.subject },
  { title: 'FOUND', of: (row) => row.message },
]
