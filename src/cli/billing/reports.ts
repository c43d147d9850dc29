// The commands billing show, reconcile, adjustments and export, each over one month or several.

import { existsSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { type ColumnOf, TOTAL, totalOf, withTotal } from '../../billing/columns.ts'
import type { Row } from '../../billing/csv.ts'
import { EXPORTS, exportText, type Form, type Reading, sumsOfPartners } from '../../billing/export.ts'
import { type OrderLine, orderLineJson, orderPages } from '../../billing/invoice.ts'
import { type ReconciledMonth, reconcile } from '../../billing/reconcile.ts'
import { bill, statementJson } from '../../billing/statement.ts'
import type { Statement } from '../../core/fees.ts'
import { type Btc, formatBtc, formatCents, formatUsd, type Usd, usd } from '../../core/money.ts'
import { type FixedPeriod, periodOf, type Stage, stageOf } from '../../core/month.ts'
import { usage } from '../../core/problem.ts'
import { counted } from '../../core/text.ts'
import { formatInstant } from '../../core/time.ts'
import type { Fault } from '../../store/monitoring.ts'
import type { Store, TenantFilter } from '../../store/store.ts'
import { nameTaken, refuseDevice, writeFileWhole } from '../../whole-file.ts'
import type { Cli } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import {
  type Column,
  createProgress,
  note,
  print,
  printPages,
  printWritten,
  renderTable,
  warn,
  write,
} from '../terminal.ts'
import { type Months, timeFor } from './months.ts'
import type { Settings } from './settings.ts'

type StatementJson = ReturnType<typeof statementJson>
/** A row of the table; the last one has only columns that can be added up. */
type Shown = Row<keyof StatementJson | 'per_user_usd'>

export async function showMonths(cli: Cli, store: Store, scope: Months): Promise<void> {
  const periods = await fixPeriods(cli, store, scope)
  const statements: StatementJson[] = []
  const shown: Shown[] = []
  for (const period of periods)
    for (const statement of await statementsOf(store, period, scope.filter)) {
      const json = statementJson(statement)
      statements.push(json)
      shown.push({ ...json, per_user_usd: formatUsd(statement.tier.perActiveUser) })
    }
  const isRange = periods.length > 1
  const table =
    shown.length === 0
      ? 'no partners'
      : await renderTable(
          isRange ? [MONTH, ...STATEMENT_COLUMNS] : STATEMENT_COLUMNS,
          isRange ? withTotalsOfRange(shown) : withTotals(shown),
        )
  print(cli, statements, () => `${titleOf(periods)}\n\n${table}${cutNote(shown)}`)
}

export async function showPartners(cli: Cli, store: Store, scope: Months): Promise<void> {
  const periods = await fixPeriods(cli, store, scope)
  const rows = await sumsOfPartners({ store, periods, filter: scope.filter })
  const table =
    rows.length === 0 ? 'no partners' : await renderTable(OF_PARTNERS, withTotal('partners', rows))
  print(cli, rows, () => `${titleOf(periods)}\n\n${table}${cutNote(rows)}`)
}

export async function statementsOf(
  store: Store,
  period: FixedPeriod,
  filter: TenantFilter,
): Promise<Statement[]> {
  const statements: Statement[] = []
  for (const tenant of await store.listTenants(filter, periodOf(period.month).end))
    statements.push((await bill(store, tenant, period)).statement)
  return statements
}

/** A note about the fractions of a cent that a table leaves out, if there are any. */
const cutNote = (rows: readonly Row<'volume_usd'>[]): string =>
  rows.every((row) => volumeOf(row) === row.volume_usd)
    ? ''
    : '\n\nVolumes are cut off to the cent, as on an invoice; --json and the exports have every place.'

function titleOf(periods: readonly Covered[]): string {
  const [first, last] = [periods[0], periods.at(-1)]
  if (first === undefined || last === undefined) return ''
  const [months, ahead] =
    first === last ? [last.month, 'not yet begun'] : [`${first.month} to ${last.month}`, 'not over yet']
  const until = last.stage === 'ahead' ? ahead : `so far, until ${formatInstant(last.end)}`
  return `${months}, ${last.final ? 'final' : until}`
}

const withTotals = (shown: Shown[]): Shown[] => (shown.length < 2 ? shown : [...shown, rowOfTotals(shown)])

/** For several months: a total for each partner and, for several partners, one of all. */
function withTotalsOfRange(shown: Shown[]): Shown[] {
  const byPartner = Map.groupBy(shown, ({ partner_slug, environment }) => `${partner_slug} ${environment}`)
  const ofPartners = [...byPartner.values()].flatMap((rows) => {
    const { partner_slug = null, environment = null } = rows[0] ?? {}
    return { ...rowOfTotals(rows), partner_slug, environment, month: TOTAL }
  })
  const ofAll = ofPartners.length < 2 ? [] : [{ ...rowOfTotals(shown), partner_slug: '', month: TOTAL }]
  return [...shown, ...ofPartners, ...ofAll]
}

const rowOfTotals = (rows: Shown[]): Shown => totalOf(Object.keys(rows[0] ?? {}) as (keyof Shown)[], rows)

const MONTH: Column<Shown> = { title: 'MONTH', of: (row) => row.month ?? '' }

const nameOf = (row: Row<'partner_slug' | 'environment'>) =>
  row.environment === null ? row.partner_slug : `${row.partner_slug} ${row.environment}`
const volumeOf = ({ volume_usd }: Row<'volume_usd'>) => formatCents(usd(String(volume_usd)))
const chargeOf = (row: Row<'billable' | 'total_fee_usd'>) =>
  row.billable === false ? 'not billed' : row.total_fee_usd

const OF_PARTNERS: Column<Row<ColumnOf<'partners'>>>[] = [
  { title: 'PARTNER', of: nameOf },
  { title: 'FROM', of: (row) => row.from_month ?? '' },
  { title: 'TO', of: (row) => row.to_month ?? '' },
  { title: 'TRADES', of: (row) => row.trade_count, right: true },
  { title: 'VOLUME USD', of: volumeOf, right: true },
  { title: 'VOLUME BTC', of: (row) => row.volume_btc, right: true },
  { title: 'VOLUME FEE', of: (row) => row.volume_fee_usd, right: true },
  { title: 'USER FEE', of: (row) => row.user_fee_usd, right: true },
  { title: 'UP TO MINIMUM', of: (row) => row.up_to_minimum_usd, right: true },
  { title: 'FEE USD', of: chargeOf, right: true },
]

const STATEMENT_COLUMNS: Column<Shown>[] = [
  { title: 'PARTNER', of: nameOf },
  { title: 'TRADES', of: (row) => row.trade_count, right: true },
  { title: 'USERS', of: (row) => row.active_users, right: true },
  { title: 'VOLUME USD', of: volumeOf, right: true },
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
  { title: 'FEE USD', of: chargeOf, right: true },
]

// billing reconcile: whether the figures of one or several months agree, computed in every way.

export async function proveMonths(
  cli: Cli,
  store: Store,
  { months, filter, isYear }: Months & { isYear: boolean },
): Promise<void> {
  const periods = await fixPeriods(cli, store, { months, filter })
  noteStages(cli, periods)
  const { tenants, months: proved, faults } = await reconcile(store, periods, filter)
  const findings = [...faults, ...proved.flatMap((one) => one.findings)]
  const ok = findings.length === 0
  const json = {
    ok,
    // Kept for scripts written when there was only a single month.
    month: months.length === 1 ? (months[0] ?? null) : null,
    from: months[0] ?? null,
    to: months.at(-1) ?? null,
    final: proved.every(({ final }) => final),
    tenants,
    ...sumsJson(sumOf(proved)),
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
      ? agreementInWords(
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

const sumOf = (months: readonly ReconciledMonth[]): Sums =>
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

/** A year that begins with empty months is shown from the first purchase on. */
function fromFirstTrade(months: readonly ReconciledMonth[]): readonly ReconciledMonth[] {
  const first = months.findIndex(({ trades }) => trades > 0)
  return months.slice(first === -1 ? -1 : first)
}

/** A line for each month and, for several, one for all. `who` names the partners. */
function agreementInWords(months: readonly ReconciledMonth[], who: string): string {
  const lines = months.map(
    ({ month, trades }) => `${month}: users, trades and summary agree (${who}, ${counted(trades, 'trade')}).`,
  )
  if (months.length < 2) return lines.join('\n')
  const { trades, volume } = sumOf(months)
  const range = `${months[0]?.month} to ${months.at(-1)?.month}`
  const sums = `${who}, ${counted(trades, 'trade')}, ${formatCents(volume)} USD`
  return [...lines, `${range}: ${counted(months.length, 'month')} agree (${sums}).`].join('\n')
}

const FINDING_COLUMNS: Column<Fault>[] = [
  { title: 'WHAT', of: (row) => row.kind },
  { title: 'WHERE', of: (row) => row.subject },
  { title: 'FOUND', of: (row) => row.message },
]

// billing adjustments: the corrections of one or several months, the reasons, and the earlier figures.

/** This many rows share column widths. An operator makes each of them, so there are seldom more. */
const ROWS_TOGETHER = 1_000

export async function listAdjustments(cli: Cli, store: Store, scope: Months): Promise<void> {
  const periods = await fixPeriods(cli, store, scope)
  noteStages(cli, periods)
  const columns = periods.length > 1 ? [ADJUSTMENT_MONTH, ...ADJUSTMENT_COLUMNS] : ADJUSTMENT_COLUMNS
  const pages = linesOf({ store, periods, filter: scope.filter })
  await printPages(cli, pages, { json: orderLineJson, columns, none: 'No adjustments.' })
}

/** In larger pages than they are read, because a page for each month would make a table for each month. */
async function* linesOf({ store, periods, filter }: Reading & { store: Store }): AsyncGenerator<OrderLine[]> {
  let rows: OrderLine[] = []
  for (const period of periods)
    for await (const page of orderPages({ store, period, filter })) {
      rows.push(...page)
      if (rows.length < ROWS_TOGETHER) continue
      yield rows
      rows = []
    }
  yield rows
}

type AdjustedOrder = ReturnType<typeof orderLineJson>

const ADJUSTMENT_MONTH: Column<AdjustedOrder> = { title: 'MONTH', of: (row) => row.recorded_at.slice(0, 7) }

const ADJUSTMENT_COLUMNS: Column<AdjustedOrder>[] = [
  { title: 'NO', of: (row) => row.adjustment, right: true },
  { title: 'RECORDED', of: (row) => row.recorded_at },
  { title: 'PARTNER', of: (row) => `${row.partner_slug} ${row.environment}` },
  { title: 'USD', of: (row) => row.usd_difference, right: true },
  { title: 'BTC', of: (row) => row.btc_difference, right: true },
  { title: 'REASON', of: (row) => row.reason },
  { title: 'EXECUTION', of: (row) => row.execution_id },
  { title: 'ORDER', of: (row) => row.orders.join(' + ') },
  { title: 'BEFORE', of: (row) => `${row.usd_amount_before} USD for ${row.btc_amount_before} BTC` },
  { title: 'AFTER', of: (row) => `${row.usd_amount} USD for ${row.btc_amount} BTC` },
  { title: 'CONFIRMED', of: (row) => row.original_recorded_at },
]

// billing export: row by row to a pipe, or to a file that appears only when it is complete.

/** Where a result goes: null for stdout. */
export type Target = { output: string | null; force?: boolean }
export type ExportOptions = Target &
  Omit<Form, 'format' | 'texts'> & {
    format: Form['format'] | 'hledger'
    /** The settings for a journal. */
    settings: Settings | null
    raw?: boolean
    quoteText?: boolean
  }

export async function exportMonths(
  cli: Cli,
  store: Store,
  { months, filter, options }: Months & { options: ExportOptions },
): Promise<void> {
  const { output } = options
  await refuseTarget(cli, options)
  collectOften()
  const periods = await fixPeriods(cli, store, { months, filter })
  noteStages(cli, periods)
  const reading = { store, periods, filter }
  // Rows on the screen show the progress; a bar between them would spoil both.
  const screen = output === null && cli.streams.out.isTTY
  const watched = cli.streams.err.isTTY && !screen
  const total = watched && EXPORTS[options.report].isOfLines ? await countLines(reading) : 0
  const progress = watched ? createProgress(cli.streams, () => 'exporting') : null
  let rows = 0
  const chunks = (async function* () {
    for await (const text of await textsOf(reading, options)) {
      rows += text.rows
      if (total > 0) progress?.show(rows / total)
      yield text.text
    }
  })()
  try {
    await writeTo(cli, options, chunks)
  } finally {
    progress?.clear()
  }
  if (output === null) return
  const what = options.format === 'hledger' ? 'transaction' : 'row'
  printWritten(cli, { file: output, rows }, `${counted(rows, what)} in ${output}.`)
}

async function textsOf(
  reading: Reading,
  options: ExportOptions,
): Promise<AsyncGenerator<{ text: string; rows: number }>> {
  const { format, raw, quoteText, settings } = options
  if (format !== 'hledger')
    return exportText(reading, { ...options, format, texts: raw ? 'raw' : quoteText ? 'quoted' : 'guarded' })
  const { ACCOUNTS, journalOf } = await import('../../billing/journal.ts')
  const running = reading.periods.find(({ final }) => !final)
  if (running)
    throw usage(
      `${running.month} can still change, and what is booked should not: only months that are final have a journal.`,
    )
  return journalOf({
    ...reading,
    accounts: settings?.accounts ?? ACCOUNTS,
    tax: settings?.tax ?? (() => null),
  })
}

/** Rows live only for a moment. By default V8 would grow its nursery to many times what they need. */
export const collectOften = (): void => setFlagsFromString('--semi-space-growth-factor=1')

/** Throws usage for a file of the database, bad_file for a pipe or a device, file_exists for a name that is taken. */
export async function refuseTarget(cli: Cli, { output, force }: Target): Promise<void> {
  if (output === null) return
  const database = await cli.database()
  database.refuseOutput(output)
  refuseDevice(output, 'name another, or leave --output out to write to stdout')
  if (!force && existsSync(output)) throw nameTaken(output)
}

/** Writes to stdout, or to a file that appears complete or not at all. */
export async function writeTo(
  cli: Cli,
  { output, force }: Target,
  chunks: AsyncIterable<string> | readonly string[],
): Promise<void> {
  if (output !== null) return writeFileWhole(output, chunks, { replace: force ?? false })
  for await (const chunk of chunks) await write(cli.streams.out, chunk)
}

async function countLines({ store, periods, filter }: Reading): Promise<number> {
  let lines = 0
  for (const period of periods) lines += await store.countTradeLines(period, filter)
  return lines
}

/** The period of a report, and the state of its month. A final month is over, whatever the clock says. */
export type Covered = FixedPeriod & { stage: Stage }

export async function fixPeriods(cli: Cli, store: Store, { months, filter }: Months): Promise<Covered[]> {
  const periods: Covered[] = []
  for (const month of months) periods.push(await fixPeriodFor(cli, store, { month, filter }))
  return periods
}

/** Fixes the period of a report. Warns of a month that is over and not final. */
export async function fixPeriodFor(
  cli: Cli,
  store: Store,
  { month, filter }: { month: string; filter: TenantFilter },
): Promise<Covered> {
  const { slug, environment } = filter
  const tenant = slug !== null && environment !== null ? await store.findTenant(slug, environment) : null
  const period = await store.fixPeriod(periodOf(month), tenant)
  if (period.final) return { ...period, stage: 'over' }
  const stage = stageOf(periodOf(month), await timeFor(store, filter))
  // In a database that has moved, no month becomes final any more; it does in the new database.
  if (stage === 'over' && (await store.readFrozen())?.kind === 'moved')
    warn(
      cli,
      `${month} was not closed when this database moved, so its figures here are not final: ask the database that it moved to.`,
    )
  else if (stage === 'over')
    warn(
      cli,
      `${month} is over by this clock alone, so its figures are not final: no tick, trade or change by an operator has been recorded ` +
        'since its end. Run tranche tick, then ask again.',
    )
  return { ...period, stage }
}

/** Remarks on months whose figures will change, for results that do not say so themselves. */
export function noteStages(cli: Cli, periods: readonly Covered[]): void {
  for (const { month, stage } of periods) {
    if (stage === 'ahead') note(cli, `${month} has not begun.`)
    if (stage === 'running') note(cli, `${month} is not over yet: these are its figures so far.`)
  }
}
