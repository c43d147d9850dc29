// The chart of a backtest: one self-contained SVG, three panels for each frequency.

import { type Frequency, WINDOW_MS } from '../../core/frequency.ts'
import { DAY_MS, HOUR_MS, type Instant, utcDate } from '../../core/instant.ts'
import type { History } from '../../engine/backtest/bars.ts'
import type { WindowResult } from '../../engine/backtest/replay-windows.ts'
import { type BacktestReport, blocksOf, saving } from '../../engine/backtest/savings-report.ts'
import { WINDOW_EVERY_HOURS } from '../../engine/backtest/window-starts.ts'
import { drawDistribution } from './distribution-panel.ts'
import { COST_HEIGHT, drawCost } from './saving-panel.ts'
import { count, FONT, INK, RULE, SMALL } from './style.ts'
import { element, group, line, text } from './svg.ts'
import { drawExample, medianWindow } from './window-panel.ts'

const WIDTH_PX = 960
const MARGIN_PX = 36
const HEAD_PX = 92
const FOOT_PX = 64
const RUN_HEAD_PX = 44
const LOWER_PX = 300
const RUN_PX = RUN_HEAD_PX + COST_HEIGHT + 20 + LOWER_PX + 12
const GAP_PX = 48
const DISTRIBUTION_PX = 370

type Run = { results: WindowResult[]; report: BacktestReport }

/** Draws the runs one below the other. The same runs give the same bytes. */
export function drawBacktest(runs: readonly Run[], history: History): string {
  const height = HEAD_PX + runs.length * RUN_PX + FOOT_PX
  const file = runs[0]?.report.file ?? ''
  return `${element(
    'svg',
    {
      xmlns: 'http://www.w3.org/2000/svg',
      width: WIDTH_PX,
      height,
      viewBox: `0 0 ${WIDTH_PX} ${height}`,
      style: FONT,
      role: 'img',
    },
    element('title', {}, 'Backtest of the timing engine'),
    element('rect', { width: WIDTH_PX, height, fill: '#ffffff' }),
    head(file, history),
    ...runs.map((run, i) => drawRun(run, history, HEAD_PX + i * RUN_PX)),
    foot(height - FOOT_PX + 18),
  )}\n`
}

const LEVEL = { 'font-size': 20, 'font-weight': 600, fill: INK }
const NAME_MAX = 60

/** The last part of the path: a chart is passed on, the folders of the machine that drew it are not. */
function fileName(file: string): string {
  const name = file.split(/[\\/]/).at(-1) ?? file
  return name.length > NAME_MAX ? `${name.slice(0, NAME_MAX)}\u2026` : name
}

const date = (at: number): string => utcDate(at as Instant)

function head(file: string, { at }: History): string {
  const period = `${date(at[0] ?? 0)} to ${date(at.at(-1) ?? 0)}`
  return group(
    {},
    text(MARGIN_PX, 40, 'Timing engine against the time-weighted average price', LEVEL),
    text(MARGIN_PX, 60, `${fileName(file)}: ${count(at.length)} prices, ${period} (UTC), one tick at each`, {
      ...SMALL,
      'font-size': 12,
    }),
    text(
      MARGIN_PX,
      78,
      'TWAP: the average price of a purchase spread evenly over the window. 1 bp = 0.01 %. No fees, no spread.',
      { ...SMALL, 'font-size': 12 },
    ),
  )
}

const WINDOW_WORDS: Record<Frequency, string> = {
  daily: `Daily windows (${WINDOW_MS.daily / HOUR_MS} hours)`,
  weekly: `Weekly windows (${WINDOW_MS.weekly / DAY_MS} days)`,
  'bi-weekly': `Bi-weekly windows (${WINDOW_MS['bi-weekly'] / DAY_MS} days)`,
}

function drawRun({ results, report }: Run, history: History, top: number): string {
  const savings = results.map((window) => saving(window, window.cost))
  const lower = top + RUN_HEAD_PX + COST_HEIGHT + 20
  const period = `${date(results[0]?.start ?? 0)} to ${date(results.at(-1)?.end ?? 0)}`
  const right = MARGIN_PX + DISTRIBUTION_PX + GAP_PX
  const inner = WIDTH_PX - 2 * MARGIN_PX
  return group(
    {},
    line(MARGIN_PX, top, WIDTH_PX - MARGIN_PX, top, { stroke: RULE }),
    text(MARGIN_PX, top + 26, WINDOW_WORDS[report.frequency], {
      'font-size': 16,
      'font-weight': 600,
      fill: INK,
    }),
    text(
      WIDTH_PX - MARGIN_PX,
      top + 26,
      `${count(report.windows)} overlapping windows, one begun every ${WINDOW_EVERY_HOURS} hours, ${period}`,
      { ...SMALL, 'text-anchor': 'end' },
    ),
    drawCost(report, blocksOf(results, report.frequency), {
      left: MARGIN_PX,
      top: top + RUN_HEAD_PX,
      width: inner,
      height: COST_HEIGHT,
    }),
    drawDistribution(savings, { left: MARGIN_PX, top: lower, width: DISTRIBUTION_PX, height: LOWER_PX }),
    drawExample(medianWindow(results), history, {
      left: right,
      top: lower,
      width: WIDTH_PX - MARGIN_PX - right,
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
