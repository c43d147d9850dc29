// billing: the charges of a month, shown, exported, invoiced and proved.

import { Command, Option } from 'commander'
import { ALL_REPORTS } from '../../billing/columns.ts'
import { type CsvForm, DELIMITERS, STANDARD } from '../../billing/csv.ts'
import type { Environment } from '../../core/partner.ts'
import { usage } from '../../core/problem.ts'
import { monthOf } from '../../core/time.ts'
import type { Store } from '../../store/store.ts'
import { filterOf, partnerNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { dollars, envOption, reasonOption, slug } from '../options.ts'
import type { AgainstOptions } from './against.ts'
import type { CreditOptions, InvoiceOptions, IssueOptions } from './invoice.ts'
import {
  addMonthOptions,
  type MonthOptions,
  monthOption,
  monthsOf,
  namesMonths,
  timeFor,
  warnOfSandboxes,
} from './months.ts'
import type { ExportOptions } from './reports.ts'
import type { Settings } from './settings.ts'

type Scope = MonthOptions & { partner?: string; env: Environment }

export function billingCommand(cli: Cli): Command {
  const billing = new Command('billing').description('what a month costs, for finance')

  scoped(addMonthOptions(billing.command('show'), 'the present one'))
    .description('the statements of a month, of several, or of a year')
    .addOption(
      new Option('--by <what>', 'a row for each month of a partner, or one for each partner')
        .choices(['month', 'partner'])
        .default('month'),
    )
    .action((scope: Scope & { by: 'month' | 'partner' }) =>
      cli.withStore(async (store) => {
        const { showMonths, showPartners } = await import('./reports.ts')
        const show = scope.by === 'month' ? showMonths : showPartners
        await show(cli, store, await resolved(cli, store, scope))
      }),
    )

  addExport(cli, billing)
  addInvoice(cli, billing)
  addIssue(cli, billing)

  scoped(addMonthOptions(billing.command('adjustments'), 'the present one'))
    .description('what was corrected, why, and the fill that it corrects')
    .action((scope: Scope) =>
      cli.withStore(async (store) => {
        const { listAdjustments } = await import('./reports.ts')
        await listAdjustments(cli, store, await resolved(cli, store, scope))
      }),
    )

  addReconcile(cli, billing)
  return billing
}

function addReconcile(cli: Cli, billing: Command): void {
  scoped(addMonthOptions(billing.command('reconcile'), 'the present one'))
    .description(
      "prove that users, trades and summary agree, or compare with a partner's own orders; exits 3 when they differ",
    )
    .option('--against <file>', "the partner's own orders as CSV, compared with ours; - is stdin")
    .option('--column-order <name>', 'the column of the order id, by default partner_order_id')
    .option('--column-usd <name>', 'the column of the dollars spent, by default usd_amount')
    .option('--column-btc <name>', 'the column of the bitcoin bought, by default btc_amount')
    .option(
      '--column-fee <name>',
      "the column of the partner's fee, by default partner_fee_usd if there is one",
    )
    .option('--column-plan <name>', 'the column of the plan, by default partner_plan_id if there is one')
    .addOption(delimiterOption())
    .option(...DECIMAL_COMMA)
    .addOption(timesOption('the form of its times, which are not compared'))
    .action(async (given: Scope & Partial<AgainstOptions> & CsvOptions) => {
      const { partner, env, against } = given
      const csv = csvFormOf(given)
      const names = Object.keys(given).find((name) => name.startsWith('column'))
      if (against === undefined && (names !== undefined || csv !== STANDARD))
        throw usage(
          'The --column options, --delimiter, --decimal-comma and --times say how the file of --against is written.',
        )
      if (against !== undefined && partner === undefined)
        throw usage('--against needs --partner: a list of orders is that of one partner.')
      if (against === undefined || partner === undefined)
        return cli.withStore(async (store) => {
          const { proveMonths } = await import('./reports.ts')
          await proveMonths(cli, store, await resolved(cli, store, given))
        })
      const { compareWith, openOrders } = await import('./against.ts')
      const text = openOrders(cli, against)
      await cli.withStore(async (store) => {
        const { months } = await resolved(cli, store, given)
        const scope = { slug: partner, environment: env, months }
        await compareWith(cli, store, scope, { ...given, against, text, csv })
      })
    })
}

function addExport(cli: Cli, billing: Command): void {
  scoped(addMonthOptions(billing.command('export')))
    .description('write one month or several as CSV, JSON or a journal, to stdout or a file')
    .addOption(new Option('--report <report>', 'what to write').choices(ALL_REPORTS).default('summary'))
    .addOption(
      new Option('--format <format>', 'by default csv; json with --json to stdout').choices([
        'csv',
        'json',
        'hledger',
      ]),
    )
    .option('--settings <file>', 'JSON with accounts and taxes of the journal, for --format hledger')
    .option('--totals', 'end with a row of totals')
    .option('--output <file>', 'write this file, complete or not at all, readable by you alone; - is stdout')
    .option('--force', 'replace the file if it exists')
    .option('--bom', 'begin with a byte order mark, for spreadsheets')
    .option('--quote-text', 'put every text in quotes, for spreadsheets that keep quoted cells as text')
    .addOption(delimiterOption())
    .option(...DECIMAL_COMMA)
    .addOption(timesOption('write times as 2026-10-05 09:00:00, which spreadsheets take for dates'))
    .option('--raw', 'write texts as they are, without a guard against formulas: for programs alone')
    .action(async (given: Scope & Given<ExportOptions> & CsvOptions, command: Command) => {
      if (!namesMonths(given)) throw usage('Give --month, --from, --year or --year-to-date.')
      const form = { ...given, ...targetOf(cli, given, 'csv'), csv: csvFormOf(given) }
      refuseForm(form, command)
      const options = { ...form, settings: await settingsIn(given.settings) }
      await cli.withStore(async (store) => {
        const { exportMonths } = await import('./reports.ts')
        await exportMonths(cli, store, { ...(await resolved(cli, store, given)), options })
      }, EXPORT_MEMORY)
    })
}

type CsvOptions = {
  delimiter?: keyof typeof DELIMITERS
  decimalComma?: boolean
  times?: 'iso' | 'spreadsheet'
}

const delimiterOption = () =>
  new Option('--delimiter <mark>', 'what separates cells, by default a comma').choices(
    Object.keys(DELIMITERS),
  )
const DECIMAL_COMMA = ['--decimal-comma', 'amounts have a comma, as 1234,50; with another delimiter'] as const
const timesOption = (what: string) => new Option('--times <form>', what).choices(['iso', 'spreadsheet'])

/** How a CSV file is written; STANDARD itself without any of these options. Throws usage. */
function csvFormOf({ delimiter = ',', decimalComma = false, times = 'iso' }: CsvOptions): CsvForm {
  if (delimiter === ',' && !decimalComma && times === 'iso') return STANDARD
  if (delimiter === ',' && decimalComma)
    throw usage("--decimal-comma needs another delimiter than the comma: --delimiter ';' or --delimiter tab.")
  return { delimiter: DELIMITERS[delimiter], decimalComma, spreadsheetTimes: times === 'spreadsheet' }
}

/** Options of an export that contradict each other. Throws usage. */
function refuseForm(
  { format, bom, raw, quoteText, totals, settings, env, csv }: Formed,
  command: Command,
): void {
  const [isJson, isJournal] = [format === 'json', format === 'hledger']
  const isReportNamed = command.getOptionValueSource('report') !== 'default'
  const faults: [isThere: boolean | undefined, message: string][] = [
    [format !== 'csv' && csv !== STANDARD, '--delimiter, --decimal-comma and --times go with --format csv.'],
    [isJson && bom, 'JSON has no byte order mark: --bom goes with --format csv.'],
    [
      isJson && (raw || quoteText),
      'JSON has every text as it is: --raw and --quote-text go with --format csv.',
    ],
    [
      raw && (bom || quoteText),
      '--raw is for programs, --bom and --quote-text are for spreadsheets: a spreadsheet needs the guard.',
    ],
    [
      !isJournal && settings !== undefined,
      '--settings has the accounts of a journal: it goes with --format hledger.',
    ],
    [
      isJournal && (bom || raw || quoteText || totals),
      'A journal has no cells: --bom, --raw, --quote-text and --totals go with --format csv.',
    ],
    [isJournal && isReportNamed, 'A journal is made of statements: --format hledger takes no --report.'],
    [isJournal && env !== 'live', 'Test environments owe nothing: a journal is of live ones.'],
  ]
  const fault = faults.find(([isThere]) => isThere)
  if (fault) throw usage(fault[1])
}

type Formed = Omit<Given<ExportOptions>, 'output'> & { env: Environment; format: ExportOptions['format'] }

function addInvoice(cli: Cli, billing: Command): void {
  billing
    .command('invoice')
    .description("a partner's month as an invoice, to stdout or a file; live only")
    .option('--partner <slug>', 'the partner charged', slug)
    .addOption(monthOption())
    .option('--number <number>', 'an invoice or a credit note that was issued, by its number')
    .addOption(
      new Option('--format <format>', 'by default html; json with --json to stdout').choices([
        'html',
        'md',
        'json',
      ]),
    )
    .option('--settings <file>', 'JSON with the names and addresses of the issuer and the partners')
    .option('--output <file>', 'write this file, complete or not at all, readable by you alone; - is stdout')
    .addOption(
      new Option(
        '--output-dir <folder>',
        'write the invoices of all partners there, a file for each',
      ).conflicts('output'),
    )
    .option('--force', 'replace the file if it exists')
    .action(async (given: Given<InvoiceOptions>) => {
      const { number, partner, month, settings, outputDir } = given
      if (number !== undefined && [partner, month, settings, outputDir].some((one) => one !== undefined))
        throw usage(
          'An issued invoice has its own settings: --number cannot be combined with --partner, --month, --settings or --output-dir.',
        )
      const target = targetOf(cli, { output: outputDir ?? given.output, format: given.format }, 'html')
      const options = { ...given, ...target, settings: await settingsIn(settings) }
      await cli.withStore(async (store) => {
        const { writeInvoice } = await import('./invoice.ts')
        await writeInvoice(cli, store, options)
      }, EXPORT_MEMORY)
    })
}

const ISSUER = 'JSON with the numbers of the issuer, and all names, addresses and taxes'
const SETTINGS = ['--settings <file>', ISSUER] as const

/** The commands that number invoices and credit notes, and their index. */
function addIssue(cli: Cli, billing: Command): void {
  billing
    .command('issue')
    .description('number the invoices of a month that is final, once and for all')
    .addOption(monthOption().makeOptionMandatory())
    .option('--partner <slug>', 'only of this partner', slug)
    .requiredOption(...SETTINGS)
    .action(async (given: Omit<IssueOptions, 'settings'> & { settings: string }) => {
      const settings = await readAsCaller(given.settings)
      await cli.withStore(async (store) => {
        const { issueInvoices } = await import('./invoice.ts')
        if (given.partner !== undefined) await partnerNamed(store, given.partner)
        await issueInvoices(cli, store, { ...given, settings })
      })
    })

  billing
    .command('credit')
    .description('issue a credit note that corrects an invoice')
    .argument('<number>', 'of the invoice')
    .requiredOption('--usd <usd>', 'how much of the net amount is given back; its tax follows', dollars)
    .addOption(reasonOption('why, printed on the credit note'))
    .requiredOption(...SETTINGS)
    .action(
      async (number: string, given: Omit<CreditOptions, 'number' | 'settings'> & { settings: string }) => {
        const settings = await readAsCaller(given.settings)
        await cli.withStore(async (store) => {
          const { creditInvoice } = await import('./invoice.ts')
          await creditInvoice(cli, store, { ...given, number, settings })
        })
      },
    )

  addMonthOptions(billing.command('issued'), 'the present one')
    .description('the invoices and credit notes that were issued in a month, in several, or in a year')
    .option('--partner <slug>', 'only of this partner', slug)
    .action((given: MonthOptions & { partner?: string }) =>
      cli.withStore(async (store) => {
        const { listIssued } = await import('./invoice.ts')
        await listIssued(cli, store, await resolved(cli, store, { ...given, env: 'live' }))
      }),
    )
}

/** Must be called before the database is named: root then switches to another user, who may not read the file. */
const readAsCaller = async (file: string): Promise<Settings> =>
  (await import('./settings.ts')).readSettings(file)

const settingsIn = async (file: string | undefined): Promise<Settings | null> =>
  file === undefined ? null : readAsCaller(file)

/** Options of a command that writes a file, as they were typed. */
type Given<T extends { format: string }> = Omit<T, 'format' | 'output' | 'settings'> & {
  settings?: string
  format?: T['format']
  output?: string
}

/** Where to write, and in which format. Throws usage for options that contradict each other. */
function targetOf<F extends string>(
  cli: Cli,
  given: { output?: string | undefined; format?: F | 'json' | undefined },
  usual: F,
) {
  const output = given.output === undefined || given.output === '-' ? null : given.output
  const isAnswer = cli.globals().json && output === null
  const format = given.format ?? (isAnswer ? 'json' : usual)
  if (isAnswer && format !== 'json') {
    const name = format.toUpperCase()
    throw usage(`--json answers with JSON: ${name} goes to a file, with --output.`)
  }
  return { output, format }
}

/** An export reads each page of the file once: caching it would waste memory. */
const EXPORT_MEMORY = { cacheKib: 4_096 }

const scoped = (command: Command): Command =>
  command
    .option('--partner <slug>', 'only of this partner', slug)
    // The test environment, which costs nothing, is shown only on request.
    .addOption(envOption().default('live'))

/** The tenants and months that a command line names. The present month is that of the environment in question. */
async function resolved(cli: Cli, store: Store, scope: Scope) {
  const filter = await filterOf(store, scope)
  const months = await monthsOf(scope, async () => monthOf(await timeFor(store, filter)))
  await warnOfSandboxes(cli, store, { filter, months })
  return { filter, months, isYear: scope.yearToDate === true || scope.year !== undefined }
}
