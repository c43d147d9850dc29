// billing: what a month costs, shown, exported and proved.

import { Command, Option } from 'commander'
import { formatInstant, monthOf } from '../core/instant.ts'
import { periodOf } from '../core/month.ts'
import type { Environment } from '../core/partner.ts'
import { Problem } from '../core/problem.ts'
import type { Fault } from '../store/check.ts'
import type { TenantFilter } from '../store/partners.ts'
import type { Store } from '../store/store.ts'
import type { ExportOptions } from './billing/export-file.ts'
import { fixPeriodFor, noteStage, timeFor } from './billing/period.ts'
import type { Cli } from './context.ts'
import { EXIT } from './exit-codes.ts'
import { partnerNamed } from './find.ts'
import { environmentOption, month, slug } from './options/values.ts'
import { counted } from './terminal/numbers.ts'
import { note, print } from './terminal/print.ts'
import { type Column, renderTable } from './terminal/table.ts'

type Scope = { month: string; partner?: string; env: Environment }
/** What a command takes that can do without a month. */
type Shown = Omit<Scope, 'month'> & { month?: string }

export function billingCommand(cli: Cli): Command {
  const billing = new Command('billing').description('what a month costs, for finance')

  scoped(billing.command('show'), 'the present one')
    .description('the statements of a month')
    .action((scope: Shown) => cli.withStore((store) => show(cli, store, scope)))

  scoped(billing.command('export'))
    .description('write a month as CSV or JSON, to stdout or a file')
    .addOption(
      new Option('--report <report>', 'what to write')
        .choices(['summary', 'users', 'trades'])
        .default('summary'),
    )
    .addOption(
      new Option('--format <format>', 'how, by default csv; with --json to stdout, json').choices([
        'csv',
        'json',
      ]),
    )
    .option('--output <file>', 'write this file, whole or not at all, readable by you alone; - is stdout')
    .option('--force', 'replace the file if it is there')
    .option('--bom', 'begin with a byte order mark, for spreadsheets')
    .action((given: Scope & GivenExport) =>
      cli.withStore(async (store) => {
        const options = exportOptions(cli, given)
        const { exportMonth } = await import('./billing/export-file.ts')
        await exportMonth(cli, { store, filter: await filterOf(store, options), options })
      }, EXPORT_MEMORY),
    )

  scoped(billing.command('reconcile'))
    .description('prove that users, trades and summary agree; exits 3 when they do not')
    .action((scope: Scope) => cli.withStore((store) => prove(cli, store, scope)))

  return billing
}

type GivenExport = Omit<ExportOptions, 'format' | 'output'> &
  Partial<Pick<ExportOptions, 'format'>> & {
    output?: string
  }

/** Throws usage for words that do not go together. */
function exportOptions(cli: Cli, given: Scope & GivenExport): Scope & ExportOptions {
  const output = given.output === undefined || given.output === '-' ? null : given.output
  const isAnswer = cli.globals().json && output === null
  const format = given.format ?? (isAnswer ? 'json' : 'csv')
  if (isAnswer && format === 'csv')
    throw new Problem('usage', '--json answers with JSON: CSV goes to a file, with --output.')
  if (given.bom && format === 'json')
    throw new Problem('usage', 'JSON has no byte order mark: --bom goes with --format csv.')
  return { ...given, output, format }
}

/** An export reads each page once: what SQLite kept of it would be memory for nothing. */
const EXPORT_MEMORY = { cacheKib: 4_096 }

/** `otherwise` says which month it is when none is given. */
function scoped(command: Command, otherwise?: string): Command {
  const option = new Option('--month <month>', 'the month (YYYY-MM)').argParser(month)
  return (
    command
      .addOption(
        otherwise === undefined ? option.makeOptionMandatory() : option.default(undefined, otherwise),
      )
      .option('--partner <slug>', 'of this partner only', slug)
      // What nobody pays for is shown only to those who ask for it.
      .addOption(environmentOption().default('live'))
  )
}

async function filterOf(store: Store, { partner, env }: Omit<Scope, 'month'>): Promise<TenantFilter> {
  if (partner !== undefined) await partnerNamed(store, partner)
  return { slug: partner ?? null, environment: env }
}

async function show(cli: Cli, store: Store, scope: Shown): Promise<void> {
  const { bill, statementJson } = await import('../billing/statement.ts')
  const filter = await filterOf(store, scope)
  const shown = scope.month ?? monthOf(await timeFor(store, filter, cli.machine.clock()))
  const period = await fixPeriodFor(cli, store, { month: shown, filter })
  const statements = []
  for (const tenant of await store.listTenants(filter, periodOf(shown).end)) {
    statements.push(statementJson((await bill(store, tenant, period)).statement))
  }
  const until = period.stage === 'ahead' ? 'has not begun' : `so far, until ${formatInstant(period.end)}`
  const table = statements.length === 0 ? 'no partners' : await renderTable(COLUMNS, statements)
  print(cli, statements, () => `${shown}, ${period.final ? 'final' : until}\n\n${table}`)
}

async function prove(cli: Cli, store: Store, scope: Scope): Promise<void> {
  const { reconcile } = await import('../billing/reconcile.ts')
  const filter = await filterOf(store, scope)
  const period = await fixPeriodFor(cli, store, { month: scope.month, filter })
  noteStage(cli, period)
  const { findings, ...counts } = await reconcile(store, period, filter)
  const table = findings.length === 0 ? '' : await renderTable(FINDING_COLUMNS, findings)
  const ok = findings.length === 0
  print(cli, { ok, month: scope.month, final: period.final, ...counts, findings }, () => {
    if (!ok) return table
    return `${scope.month}: users, trades and summary agree (${scope.env}, ${counted(counts.tenants, 'partner')}, ${counted(counts.trades, 'trade')}).`
  })
  if (ok) return
  note(cli, 'tranche check says more about the ledger.')
  cli.exitWith(EXIT.found)
}

type StatementJson = ReturnType<typeof import('../billing/statement.ts').statementJson>

const COLUMNS: Column<StatementJson>[] = [
  { title: 'PARTNER', of: (row) => `${row.partner_slug} ${row.environment}` },
  { title: 'TRADES', of: (row) => row.trade_count, right: true },
  { title: 'USERS', of: (row) => row.active_users, right: true },
  { title: 'VOLUME USD', of: (row) => row.volume_usd, right: true },
  { title: 'VOLUME BTC', of: (row) => row.volume_btc, right: true },
  { title: 'TIER', of: (row) => `${row.pricing_tier} (${row.pricing_tier_source})` },
  { title: 'BPS', of: (row) => row.rate_bps, right: true },
  { title: 'FEE USD', of: (row) => (row.billable ? row.total_fee_usd : 'not billed'), right: true },
]

const FINDING_COLUMNS: Column<Fault>[] = [
  { title: 'WHAT', of: (row) => row.kind },
  { title: 'WHERE', of: (row) => row.subject },
  { title: 'FOUND', of: (row) => row.message },
]
