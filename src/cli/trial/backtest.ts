// backtest: the timing engine over a price history.

import { Command, InvalidArgumentError, Option } from 'commander'
import { Problem } from '../../core/problem.ts'
import { counted } from '../../core/text.ts'
import { FREQUENCIES, type Frequency } from '../../core/time.ts'
import type { Layout } from '../../core/window.ts'
import type { BacktestReport, History, Summary } from '../../engine/backtest.ts'
import { WARM_UP_DAYS } from '../../engine/window-starts.ts'
import type { Cli } from '../context.ts'
import { wholeNumber } from '../options.ts'
import { type Column, createProgress, note, print, renderTable } from '../terminal.ts'

type Options = { frequency?: Frequency; tranches?: number; chart?: string }

export function backtestCommand(cli: Cli): Command {
  return new Command('backtest')
    .description('run the timing engine over a price history (CSV: time,price)')
    .argument('<file>')
    .addOption(new Option('--frequency <frequency>', 'by default all three').choices(FREQUENCIES))
    .option('--tranches <number>', 'cut windows into this many', wholeNumber(1, 1_000))
    .addOption(new Option('--chart <file>', 'also draw an SVG').argParser(chartFile))
    .action((file: string, options: Options) => run(cli, file, options))
}

/** stdout has the report. */
function chartFile(text: string): string {
  if (text !== '-') return text
  throw new InvalidArgumentError('A chart goes into a file.')
}

async function run(cli: Cli, file: string, { frequency, tranches, chart }: Options): Promise<void> {
  const { BLOCKS_MIN, backtest, reportOf } = await import('../../engine/backtest.ts')
  const history = await readHistory(cli, file)
  const layout = tranches === undefined ? null : layoutOf(tranches)
  const runs = (frequency ? [frequency] : FREQUENCIES).map((each) => {
    const results = backtest(history, each, layout)
    if (results.length === 0) throw tooShort(file, each)
    return { results, report: reportOf(results, { file, frequency: each, history }) }
  })
  const reports = runs.map(({ report }) => report)
  const table = await tableOf(reports)
  if (chart !== undefined) {
    const { drawBacktest } = await import('./chart.ts')
    await writeChart(chart, drawBacktest(runs, history))
    note(cli, `The chart is in ${chart}.`)
  }
  for (const { frequency: each, blocks, block_days: days } of reports) {
    if (blocks < BLOCKS_MIN)
      note(cli, `Few ${days}-day blocks (${blocks}): do not rely on the intervals of ${each} windows.`)
  }
  print(cli, frequency ? reports[0] : reports, () => `${table}\n\n${READING}`)
}

/** Replaces a chart that is already there, but nothing else: neither the prices nor a database. */
async function writeChart(chart: string, svg: string): Promise<void> {
  const { existsSync, readSync } = await import('node:fs')
  const { withPlain } = await import('../../plain-file.ts')
  const { writeFileWhole } = await import('../../whole-file.ts')
  const head = Buffer.alloc(CHART_HEAD.length)
  try {
    const isThere = existsSync(chart)
    if (isThere) withPlain(chart, {}, (descriptor) => readSync(descriptor, head))
    if (isThere && head.toString('latin1') !== CHART_HEAD) throw new Error('it exists and is not a chart')
    await writeFileWhole(chart, once(svg), { replace: isThere })
  } catch (error) {
    throw new Problem('bad_file', `Cannot write the chart ${chart}: ${(error as Error).message}`)
  }
}

const CHART_HEAD = '<svg'

async function* once(text: string): AsyncIterable<string> {
  yield text
}

async function readHistory(cli: Cli, file: string): Promise<History> {
  const { gatherHistory } = await import('../../engine/backtest.ts')
  const { readPriceFile } = await import('../../price/history-file.ts')
  const reader = await readPriceFile(file)
  const progress = createProgress(cli.streams, () => 'reading')
  try {
    const gathered = gatherHistory()
    for await (const batch of reader.batches()) {
      gathered.add(batch)
      progress.show(reader.bytesRead() / reader.bytes)
    }
    return gathered.history()
  } finally {
    progress.clear()
  }
}

/** Two units a slot where the number is even, as in the policy itself. */
const layoutOf = (tranches: number): Layout =>
  tranches % 2 === 0
    ? { slots: tranches / 2, unitsPerSlot: 2, unitsFired: 0 }
    : { slots: tranches, unitsPerSlot: 1, unitsFired: 0 }

const tooShort = (file: string, frequency: Frequency): Problem =>
  new Problem(
    'bad_file',
    `${file} is too short for ${frequency} windows: they start ${WARM_UP_DAYS} days after its first price.`,
  )

const READING =
  'Savings in basis points against the time-weighted average price of each window; positive is cheaper. A win rate\n' +
  'says little without the mean and the worst cases beside it. Skill is what the saving has over a fixed schedule\n' +
  'that spends alike; an interval that holds zero is not evidence of any.'

type Row = Summary & { name: string; drift: string; skill: string }

function tableOf(reports: BacktestReport[]): Promise<string> {
  const rows = reports.flatMap((report): Row[] => {
    const { lump, clock, minimum } = report.baselines
    const blank = { drift: '', skill: '' }
    const title = `${report.frequency} (${counted(report.windows, 'window')})`
    const skill = `${signed(report.skill_bp)} ${interval(report.skill_bp_ci95)}`
    return [
      { ...report, name: title, drift: signed(report.drift_bp), skill },
      { ...clock, name: '  clock', ...blank },
      { ...lump, name: '  lump at start', ...blank },
      { ...minimum, name: '  the minimum', ...blank },
    ]
  })
  return renderTable(COLUMNS, rows)
}

const signed = (value: number): string => `${value >= 0 ? '+' : ''}${value.toFixed(2)}`
const interval = ([low, high]: [number, number]): string => `[${signed(low)}, ${signed(high)}]`
const percent = (share: number): string => `${(100 * share).toFixed(1)} %`

const COLUMNS: Column<Row>[] = [
  { title: '', of: (row) => row.name },
  { title: 'MEAN BP', of: (row) => signed(row.mean_bp), right: true },
  { title: '95 %', of: (row) => interval(row.mean_bp_ci95), right: true },
  { title: 'MEDIAN', of: (row) => signed(row.median_bp), right: true },
  { title: 'WINS', of: (row) => percent(row.win_rate), right: true },
  { title: 'P5', of: (row) => row.p5_bp.toFixed(1), right: true },
  { title: 'WORST', of: (row) => row.worst_bp.toFixed(1), right: true },
  { title: 'CAPTURE', of: (row) => percent(row.capture), right: true },
  { title: 'DRIFT', of: (row) => row.drift, right: true },
  { title: 'SKILL', of: (row) => row.skill, right: true },
]
