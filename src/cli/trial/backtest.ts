// backtest: the timing engine over a price history.

import { Command, InvalidArgumentError, Option } from 'commander'
import { Problem, reasonInWords, usage } from '../../core/problem.ts'
import { counted } from '../../core/text.ts'
import { type Instant, utcDate } from '../../core/time.ts'
import { FREQUENCIES, type Frequency, type Layout } from '../../core/window.ts'
import type { History } from '../../engine/backtest.ts'
import type { BacktestResult, Summary, Year } from '../../engine/backtest-savings.ts'
import type { Cli } from '../context.ts'
import { time, wholeNumber, word } from '../options.ts'
import { type Column, createProgress, note, print, renderTable, wrapped } from '../terminal.ts'

type Options = {
  frequency?: Frequency
  tranches?: number
  since?: Instant
  until?: Instant
  feeBps: number
  spreadBps: number
  chart?: string
}

export function backtestCommand(cli: Cli): Command {
  const instant = time(cli.machine.clock)
  return new Command('backtest')
    .description('run the timing engine over a price history (CSV: time,price)')
    .argument('<file>')
    .addOption(new Option('--frequency <frequency>', 'by default all three').choices(FREQUENCIES))
    .option('--tranches <number>', 'cut windows into this many', wholeNumber(1, 1_000))
    .option('--since <time>', 'only windows that begin then or later: 2022-01-01', instant)
    .option('--until <time>', 'only windows that have ended by then', instant)
    .option('--fee-bps <number>', 'what a venue charges on each purchase, in basis points', basisPoints, 0)
    .option('--spread-bps <number>', 'from bid to ask; a purchase pays half of it', basisPoints, 0)
    .option('--chart <file>', 'also draw an SVG', chartFile)
    .action((file: string, options: Options) => run(cli, file, options))
}

/** 50 %. */
const BASIS_POINTS_MAX = 5_000

function basisPoints(text: string): number {
  const value = /^\d{1,4}(\.\d{1,2})?$/.test(text) ? Number(text) : Number.NaN
  if (value <= BASIS_POINTS_MAX) return value
  throw new InvalidArgumentError(
    `Give basis points from 0 to ${BASIS_POINTS_MAX} with at most two places, such as 25 or 0.5.`,
  )
}

/** A chart cannot go to stdout, which has the result. */
const chartFile = word((text) => text !== '-', 'A chart goes into a file.')

async function run(cli: Cli, file: string, options: Options): Promise<void> {
  const { frequency, tranches, since, until, feeBps, spreadBps, chart } = options
  if (since !== undefined && until !== undefined && until <= since)
    throw usage('--until is not after --since.')
  const [{ backtest, WARM_UP_DAYS }, { resultOf }, { hasFewBlocks }] = await Promise.all([
    import('../../engine/backtest.ts'),
    import('../../engine/backtest-savings.ts'),
    import('./verdict.ts'),
  ])
  const history = await readHistory(cli, file)
  const layout = tranches === undefined ? null : layoutOf(tranches)
  const costs = { fee_bps: feeBps, spread_bps: spreadBps }
  const runs = (frequency ? [frequency] : FREQUENCIES).map((each) => {
    const windows = backtest(history, each, { layout, since, until })
    if (windows.start.length === 0) throw tooShort(file, each, { ...options, warmUpDays: WARM_UP_DAYS })
    return { windows, result: resultOf(windows, { file, history, costs }) }
  })
  const results = runs.map(({ result }) => result)
  if (chart !== undefined) {
    const { drawBacktest } = await import('./chart.ts')
    await writeChart(chart, drawBacktest(runs, history))
    note(cli, `The chart is in ${chart}.`)
  }
  for (const { frequency: each, blocks, block_days: days } of results.filter(hasFewBlocks))
    note(cli, `Few ${days}-day blocks (${blocks}): do not rely on the intervals of ${each} windows.`)
  const words = await wordsOf(results)
  print(cli, frequency ? results[0] : results, () => words)
}

/** Replaces a chart that is already there, but nothing else: neither the prices nor a database. */
async function writeChart(chart: string, svg: string): Promise<void> {
  const { existsSync, readSync } = await import('node:fs')
  const { withPlain } = await import('../../plain-file.ts')
  const { writeFileWhole } = await import('../../whole-file.ts')
  const head = Buffer.alloc(CHART_HEAD.length)
  try {
    const isThere = existsSync(chart)
    if (isThere) withPlain(chart, (descriptor) => readSync(descriptor, head))
    if (isThere && head.toString('latin1') !== CHART_HEAD) throw new Error('it exists and is not a chart')
    await writeFileWhole(chart, [svg], { replace: isThere })
  } catch (error) {
    throw new Problem('bad_file', `Cannot write the chart ${chart}: ${reasonInWords(error)}`)
  }
}

const CHART_HEAD = '<svg'

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

/** Two units a slot if the number is even, as in the policy itself. */
const layoutOf = (tranches: number): Layout =>
  tranches % 2 === 0
    ? { slots: tranches / 2, unitsPerSlot: 2, unitsFired: 0 }
    : { slots: tranches, unitsPerSlot: 1, unitsFired: 0 }

function tooShort(
  file: string,
  frequency: Frequency,
  { since, until, warmUpDays }: Options & { warmUpDays: number },
): Problem {
  const bounds = [
    since === undefined ? [] : [`since ${utcDate(since)}`],
    until === undefined ? [] : [`until ${utcDate(until)}`],
  ].flat()
  return new Problem(
    'bad_file',
    `${[file, ...bounds].join(' ')} is too short for ${frequency} windows: they start ${warmUpDays} days after ` +
      'its first price.',
  )
}

const LINE_COLUMNS = 118

async function wordsOf(results: BacktestResult[]): Promise<string> {
  const { foundByStart, foundInMoney } = await import('./verdict.ts')
  const parts = [await tableOf(results)]
  if (results.some(({ years }) => years.length > 1)) parts.push(await yearsOf(results))
  for (const result of results)
    parts.push(
      [foundByStart(result), foundInMoney(result)].flatMap((said) => wrapped(said, LINE_COLUMNS)).join('\n'),
    )
  parts.push(wrapped(READING, LINE_COLUMNS).join('\n'))
  return parts.join('\n\n')
}

const READING =
  'Savings in basis points against the time-weighted average price of each window; positive is cheaper. A win rate ' +
  'says little without the mean and the worst cases beside it. Skill is what the saving has over a fixed schedule ' +
  'that spends alike; an interval that holds zero is not evidence of any. Plain DCA buys the same amount each day at ' +
  'the hour at which the window starts, which in a daily window is the lump.'

type Row = Summary & { name: string; drift: string; skill: string }

function tableOf(results: BacktestResult[]): Promise<string> {
  const rows = results.flatMap((result): Row[] => {
    const { lump, clock, dca, minimum } = result.baselines
    const blank = { drift: '', skill: '' }
    const title = `${result.frequency} (${counted(result.windows, 'window')})`
    const [low, high] = result.skill_bp_ci95
    // The years on which it was tuned prove nothing about others.
    const within = low > 0 || high < 0 ? ', in this sample' : ''
    const skill = `${signed(result.skill_bp)} ${interval(result.skill_bp_ci95)}${within}`
    return [
      { ...result, name: title, drift: signed(result.drift_bp), skill },
      { ...clock, name: '  clock', ...blank },
      // In a daily window both are one purchase at the start.
      ...(result.frequency === 'daily' ? [] : [{ ...dca, name: '  plain DCA', ...blank }]),
      {
        ...lump,
        name: result.frequency === 'daily' ? '  plain DCA, lump at start' : '  lump at start',
        ...blank,
      },
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

/** A line for each year; a year in which no window of a frequency begins has none of its figures. */
function yearsOf(results: BacktestResult[]): Promise<string> {
  type Line = { year: number; of: (Year | undefined)[] }
  const years = [...new Set(results.flatMap((result) => result.years.map(({ year }) => year)))].sort()
  const lines = years.map(
    (year): Line => ({
      year,
      of: results.map((result) => result.years.find((one) => one.year === year)),
    }),
  )
  const columns = results.flatMap(({ frequency }, i): Column<Line>[] => {
    const figure = (title: string, write: (year: Year) => string): Column<Line> => ({
      title,
      of: ({ of }) => (of[i] ? write(of[i]) : null),
      right: true,
    })
    return [
      figure(`${frequency.toUpperCase()} MEAN BP`, ({ mean_bp }) => signed(mean_bp)),
      figure('P5', ({ p5_bp }) => p5_bp.toFixed(1)),
      figure('WORST', ({ worst_bp }) => worst_bp.toFixed(1)),
      figure('DCA MEAN', ({ dca_mean_bp }) => signed(dca_mean_bp)),
    ]
  })
  return renderTable([{ title: 'YEAR', of: ({ year }) => String(year) }, ...columns], lines)
}
