// The chart of a backtest: one self-contained SVG, three panels for each frequency. Titles say what was found, and a
// description says it to those who hear a chart.

import { counted } from '../../core/text.ts'
import { DAY_MS, type Frequency, HOUR_MS, type Instant, utcDate, WINDOW_MS } from '../../core/time.ts'
import type { History, Windows } from '../../engine/backtest.ts'
import { type BacktestReport, type Costs, type Summary, savingsOf } from '../../engine/savings.ts'
import { wrapped } from '../terminal.ts'
import { costHeight, drawCost, drawDistribution, isLump } from './chart-savings.ts'
import { drawExample } from './chart-window.ts'
import { count, element, FONT, group, INK, line, RULE, SMALL, signed, spoken, text } from './svg.ts'
import { finding, findings, foundByStart } from './verdict.ts'

const WIDTH_PX = 960
const MARGIN_PX = 36
const HEAD_PX = 102
const TITLE_LINE_PX = 26
const FOOT_PX = 64
const RUN_HEAD_PX = 66
const LOWER_PX = 356
const PANELS_APART_PX = 26
const DISTRIBUTION_PX = 372
const BESIDE_PX = 56
/** About as many characters of the largest size as fit between the margins. */
const TITLE_CHARACTERS = 76

type Run = { windows: Windows; report: BacktestReport }

/** Draws the runs one below the other. The same runs give the same bytes. */
export function drawBacktest(runs: readonly Run[], history: History): string {
  const reports = runs.map(({ report }) => report)
  const titles = wrapped(findings(reports), TITLE_CHARACTERS)
  const tops = [HEAD_PX + titles.length * TITLE_LINE_PX]
  for (const report of reports) tops.push((tops.at(-1) ?? 0) + runHeight(report))
  const height = (tops.at(-1) ?? 0) + FOOT_PX
  return `${element(
    'svg',
    {
      xmlns: 'http://www.w3.org/2000/svg',
      width: WIDTH_PX,
      height,
      viewBox: `0 0 ${WIDTH_PX} ${height}`,
      style: FONT,
      role: 'img',
      'aria-labelledby': 'backtest-title backtest-text',
    },
    '\n',
    spoken('title', 'backtest-title', findings(reports)),
    '\n',
    spoken('desc', 'backtest-text', inWords(reports)),
    '\n',
    element('rect', { width: WIDTH_PX, height, fill: '#ffffff' }),
    head(titles, reports, history),
    ...runs.map((run, i) => drawRun(run, history, tops[i] ?? 0)),
    foot(height - FOOT_PX + 18),
  )}\n`
}

/** The chart for those who hear it. */
function inWords(reports: readonly BacktestReport[]): string {
  const figures = (name: string, { mean_bp, win_rate, p5_bp, worst_bp }: Summary): string =>
    `${name}: mean ${signed(mean_bp, 2)}, 5th percentile ${signed(p5_bp, 0)}, worst ${signed(worst_bp, 0)}, ` +
    `${(100 * win_rate).toFixed(1)} % of windows above zero`
  const of = (report: BacktestReport): string => {
    const { clock, dca, lump } = report.baselines
    const all = [
      figures('With live prices', report),
      figures('By the clock', clock),
      figures('Plain DCA', dca),
      ...(isLump(report) ? [] : [figures('Lump at the start', lump)]),
    ]
    return `${finding(report)}. ${foundByStart(report)} Savings in basis points. ${all.join('; ')}.`
  }
  return [...reports.map(of), ...CAUTION].join(' ')
}

const LEVEL = { 'font-size': 20, 'font-weight': 600, fill: INK }
const NOTE = { ...SMALL, 'font-size': 12 }
const NAME_MAX = 60

/** The last part of the path: a chart is passed on, the folders of the machine that drew it are not. */
function fileName(file: string): string {
  const name = file.split(/[\\/]/).at(-1) ?? file
  return name.length > NAME_MAX ? `${name.slice(0, NAME_MAX)}\u2026` : name
}

const date = (at: number): string => utcDate(at as Instant)

function head(titles: string[], [report]: readonly BacktestReport[], { at }: History): string {
  const period = `${date(at[0] ?? 0)} to ${date(at.at(-1) ?? 0)}`
  const top = 14 + titles.length * TITLE_LINE_PX
  const lines = [
    `${fileName(report?.file ?? '')}: ${count(at.length)} prices, ${period} (UTC), one tick at each`,
    'The average price (TWAP) is that of a purchase spread evenly over the same window. 1 bp is 0.01 %.',
    report ? paidBeside(report) : '',
  ]
  return group(
    {},
    ...titles.map((title, i) => text(MARGIN_PX, 14 + (i + 1) * TITLE_LINE_PX, title, LEVEL)),
    ...lines.map((words, i) => text(MARGIN_PX, top + 22 + i * 18, words, NOTE)),
  )
}

function paidBeside({ fee_bps, spread_bps }: Costs): string {
  if (fee_bps === 0 && spread_bps === 0) return 'No purchase pays a fee or a spread.'
  return `Every purchase pays a fee of ${fee_bps} bp and half a spread of ${spread_bps} bp; the average price has neither.`
}

const WINDOW_WORDS: Record<Frequency, string> = {
  daily: `windows of ${WINDOW_MS.daily / HOUR_MS} hours`,
  weekly: `windows of ${WINDOW_MS.weekly / DAY_MS} days`,
  'bi-weekly': `windows of ${WINDOW_MS['bi-weekly'] / DAY_MS} days`,
}

const runHeight = (report: BacktestReport): number =>
  RUN_HEAD_PX + costHeight(report) + PANELS_APART_PX + LOWER_PX

function drawRun({ windows, report }: Run, history: History, top: number): string {
  const savings = savingsOf(windows, windows.cost, report)
  const upper = top + RUN_HEAD_PX
  const lower = upper + costHeight(report) + PANELS_APART_PX
  const period = `${report.first_start.slice(0, 10)} to ${report.last_end.slice(0, 10)}`
  const left = MARGIN_PX + DISTRIBUTION_PX + BESIDE_PX
  return group(
    {},
    line(MARGIN_PX, top, WIDTH_PX - MARGIN_PX, top, { stroke: RULE }),
    text(MARGIN_PX, top + 28, finding(report), { 'font-size': 16, 'font-weight': 600, fill: INK }),
    text(
      MARGIN_PX,
      top + 46,
      `${count(report.windows)} overlapping ${WINDOW_WORDS[report.frequency]}, one begun every ` +
        `${counted(report.starts.every_minutes, 'minute')}, ${period}`,
      SMALL,
    ),
    drawCost(report, {
      left: MARGIN_PX,
      top: upper,
      width: WIDTH_PX - 2 * MARGIN_PX,
      height: costHeight(report),
    }),
    drawDistribution(savings, { left: MARGIN_PX, top: lower, width: DISTRIBUTION_PX, height: LOWER_PX }),
    drawExample({ windows, report }, history, {
      left,
      top: lower,
      width: WIDTH_PX - MARGIN_PX - left,
      height: LOWER_PX,
    }),
  )
}

const CAUTION = [
  'Intervals are drawn from whole calendar blocks, because windows overlap. What a fixed schedule with the same average spending would have',
  'saved is drift of the market, not timing. A win rate says nothing without the mean and the worst cases. Past prices promise no later ones.',
]

const foot = (top: number): string =>
  group({}, ...CAUTION.map((words, i) => text(MARGIN_PX, top + i * 16, words, SMALL)))
