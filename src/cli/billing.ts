import { Command, Option } from 'commander'
import type { ReportKind } from '../billing/export.ts'
import { formatInstant, monthOf } from '../core/instant.ts'
import { periodOf } from '../core/month.ts'
import type { Environment } from '../core/partner.ts'
import { Problem } from '../core/problem.ts'
import type { TenantFilter } from '../store/reports.ts'
import type { Finding, Store } from '../store/store.ts'
import { type Cli, type Column, note, print, renderTable } from './cli.ts'
import { EXIT } from './exit.ts'
import { environmentOption, month, slug } from './options.ts'
import { found } from './partner.ts'

type Scope = { month: string; partner?: string; env?: Environment }
export type ExportOptions = Scope & {
  report: ReportKind
  format: 'csv' | 'json'
  output?: string
  bom?: boolean
  force?: boolean
}

export function billingCommand(cli: Cli): Command {
  const billing = new Command('billing').description('what a month comes to, for finance')

  scoped(billing.command('show'), monthOf(cli.machine.clock()))
    .description('the statements of a month')
    .action((scope: Scope) => cli.withStore((store) => show(cli, store, scope)))

  scoped(billing.command('export'))
    .description('write a month as CSV or JSON, to stdout or a file')
    .addOption(
      new Option('--report <report>', 'what to write')
        .choices(['summary', 'users', 'trades'])
        .default('summary'),
    )
    .addOption(new Option('--format <format>', 'how').choices(['csv', 'json']).default('csv'))
    .option('--output <file>', 'write this file, whole or not at all, readable by you alone')
    .option('--force', 'replace the file if it is there')
    .option('--bom', 'begin with a byte order mark, for spreadsheets')
    .action((options: ExportOptions) =>
      cli.withStore(async (store) => {
        if (options.bom && options.format === 'json')
          throw new Problem('usage', 'JSON has no byte order mark: --bom goes with --format csv.')
        const { exportMonth } = await import('./billing-export.ts')
        await exportMonth(cli, { store, filter: await filterOf(store, options), options })
      }, EXPORT_MEMORY),
    )

  scoped(billing.command('reconcile'))
    .description('prove that users, trades and summary agree; exits 3 when they do not')
    .action((scope: Scope) => cli.withStore((store) => prove(cli, store, scope)))

  return billing
}

/** An export reads each page once: what SQLite kept of it would be memory for nothing. */
const EXPORT_MEMORY = { cacheKib: 4_096 }

function scoped(command: Command, monthDefault?: string): Command {
  const option = new Option('--month <month>', 'the month (YYYY-MM)').argParser(month)
  return command
    .addOption(
      monthDefault === undefined
        ? option.makeOptionMandatory()
        : option.default(monthDefault, 'the present one'),
    )
    .option('--partner <slug>', 'of this partner only', slug)
    .addOption(environmentOption())
}

async function filterOf(store: Store, { partner, env }: Scope): Promise<TenantFilter> {
  if (partner !== undefined) await found(store, partner)
  return { slug: partner ?? null, environment: env ?? null }
}

async function show(cli: Cli, store: Store, scope: Scope): Promise<void> {
  const { bill, statementJson } = await import('../billing/statement.ts')
  const period = await store.fixPeriod(periodOf(scope.month))
  const statements = []
  for (const tenant of await store.listTenants(await filterOf(store, scope), periodOf(scope.month).end)) {
    statements.push(statementJson((await bill(store, tenant, period)).statement))
  }
  const until = period.final ? 'final' : `so far, until ${formatInstant(period.end)}`
  const table = statements.length === 0 ? 'no partners' : await renderTable(COLUMNS, statements)
  print(cli, statements, () => `${scope.month}, ${until}\n\n${table}`)
}

async function prove(cli: Cli, store: Store, scope: Scope): Promise<void> {
  const { reconcile } = await import('../billing/reconcile.ts')
  const period = await store.fixPeriod(periodOf(scope.month))
  const { findings, ...counts } = await reconcile(store, period, await filterOf(store, scope))
  const table = findings.length === 0 ? '' : await renderTable(FINDING_COLUMNS, findings)
  const ok = findings.length === 0
  print(cli, { ok, month: scope.month, final: period.final, ...counts, findings }, () => {
    if (!ok) return table
    return `${scope.month}: users, trades and summary agree (${counts.tenants} environments, ${counts.trades} trades).`
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

const FINDING_COLUMNS: Column<Finding>[] = [
  { title: 'WHAT', of: (row) => row.kind },
  { title: 'WHERE', of: (row) => row.subject },
  { title: 'FOUND', of: (row) => row.message },
]
