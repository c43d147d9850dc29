// The chart of a backtest: one self-contained SVG, three panels for each frequency.

import { TRIGGERS, type Trigger } from '../../core/execution.ts'
import { counted } from '../../core/text.ts'
import {
  DAY_MS,
  type Frequency,
  formatInstant,
  HOUR_MS,
  type Instant,
  utcDate,
  WINDOW_MS,
} from '../../core/time.ts'
import {
  type BacktestReport,
  BLOCKS_MIN,
  type Blocks,
  blocksOf,
  type History,
  mean,
  quantile,
  type Summary,
  saving,
  type WindowResult,
} from '../../engine/backtest.ts'
import { WINDOW_EVERY_HOURS } from '../../engine/window-starts.ts'
import { TRIGGER_NAME } from '../purchases/execution.ts'
import {
  axisLabels,
  type Box,
  CENTRED,
  count,
  element,
  FONT,
  group,
  INK,
  line,
  mark,
  PALE,
  POLICY,
  QUIET,
  RIGHT,
  RULE,
  type Scale,
  SMALL,
  scale,
  signed,
  TAIL,
  TITLE,
  text,
  ticks,
} from './svg.ts'

// The distribution panel: how the savings of single windows spread. The middle 98 % are drawn, and what lies outside is
// counted.

const BINS = 44
const DRAWN_SHARE = 0.98
const DISTRIBUTION_HEAD_PX = 66
const DISTRIBUTION_FOOT_PX = 70
/** What its words need beside the line of the 5th percentile. */
const P5_LABEL_PX = 70

function drawDistribution(savings: readonly number[], box: Box): string {
  const half = (1 - DRAWN_SHARE) / 2
  const domain = widened(quantile(savings, half), quantile(savings, 1 - half))
  const counts = binned(savings, domain)
  const top = box.top + DISTRIBUTION_HEAD_PX
  const bottom = box.top + box.height - DISTRIBUTION_FOOT_PX
  const x = scale(domain, [box.left, box.left + box.width])
  const y = scale([0, Math.max(1, ...counts)], [bottom, top])
  const p5 = quantile(savings, 0.05)
  const values = ticks(domain, 6)
  const labels = axisLabels(values)
  const bars = counts.map((n, i) => bin(n, i, { domain, x, y, p5 }))
  return group(
    {},
    text(box.left, box.top + 12, 'How the saving spreads over the windows', TITLE),
    text(box.left, box.top + 28, domainLegend(domain), SMALL),
    ...values.map((value, i) => text(x(value), bottom + 16, labels[i] ?? '', CENTRED)),
    group({}, ...bars),
    line(box.left, bottom, box.left + box.width, bottom, { stroke: RULE }),
    line(x(0), top - 4, x(0), bottom, { stroke: INK, 'stroke-dasharray': '1 3' }),
    ...marked(savings, { x, top, bottom, p5, left: box.left }),
    ...tails(savings, domain, { ...box, top: bottom + 32 }),
  )
}

const domainLegend = ([low, high]: [number, number]): string =>
  `windows by saving; a bar is ${((high - low) / BINS).toFixed(1)} bp wide; the middle 98 % are drawn`

function widened(low: number, high: number): [number, number] {
  const margin = low === high ? 1 : 0
  return [Math.min(low, 0) - margin, Math.max(high, 0) + margin]
}

function binned(savings: readonly number[], [low, high]: [number, number]): number[] {
  const counts = new Array<number>(BINS).fill(0)
  for (const value of savings) {
    if (value < low || value > high) continue
    const i = Math.min(BINS - 1, Math.floor(((value - low) / (high - low)) * BINS))
    counts[i] = (counts[i] ?? 0) + 1
  }
  return counts
}

type Axes = { domain: [number, number]; x: Scale; y: Scale; p5: number }

function bin(n: number, i: number, { domain: [low, high], x, y, p5 }: Axes): string {
  const step = (high - low) / BINS
  const from = low + i * step
  const fill = from + step <= p5 ? TAIL : PALE
  return element('rect', {
    x: x(from) + 0.5,
    y: y(n),
    width: Math.max(0.5, x(from + step) - x(from) - 1),
    height: y(0) - y(n),
    fill,
  })
}

function marked(
  savings: readonly number[],
  { x, top, bottom, p5, left }: { x: Scale; top: number; bottom: number; p5: number; left: number },
): string[] {
  const middle = mean(savings)
  const side = x(p5) - left < P5_LABEL_PX ? { dx: 5, anchor: 'start' } : { dx: -5, anchor: 'end' }
  return [
    line(x(p5), top + 20, x(p5), bottom, { stroke: TAIL, 'stroke-width': 1.5, 'stroke-dasharray': '5 3' }),
    ...['5th percentile', `${signed(p5, 1)} bp`].map((words, i) =>
      text(x(p5) + side.dx, top + 30 + 15 * i, words, { ...SMALL, fill: TAIL, 'text-anchor': side.anchor }),
    ),
    line(x(middle), top - 6, x(middle), bottom, { stroke: POLICY, 'stroke-width': 1.5 }),
    text(x(middle), top - 12, `mean ${signed(middle, 2)}`, {
      ...SMALL,
      fill: POLICY,
      'text-anchor': 'middle',
    }),
  ]
}

/** What the drawing leaves out, in words: a plan is hurt in the tails. */
function tails(
  savings: readonly number[],
  [low, high]: [number, number],
  { left, width, top }: Box,
): string[] {
  const below = savings.filter((value) => value < low).length
  const above = savings.filter((value) => value > high).length
  const outside = (n: number): string => `${counted(n, 'window')} outside`
  const end = { ...SMALL, 'text-anchor': 'end' }
  return [
    text(left, top, `\u25C2 ${outside(below)}`, { ...SMALL, fill: TAIL }),
    text(left, top + 16, `worst ${signed(quantile(savings, 0), 0)} bp`, { ...SMALL, fill: TAIL }),
    text(left + width / 2, top, 'basis points', { ...CENTRED, fill: QUIET }),
    text(left + width, top, `${outside(above)} \u25B8`, end),
    text(left + width, top + 16, `best ${signed(quantile(savings, 1), 0)} bp`, end),
  ]
}

// The saving panel: what each way of buying cost against the time-weighted average price, as mean and interval, with
// the win rate and the tails in words beside it: a win rate alone would promise more than the mean delivers.

type Row = { name: string; mean: number; interval: [number, number] | null; summary: Summary | null }

const NAMES_PX = 180
const PLOT_PX = 326
const ROW_PX = 24
const SAVING_HEAD_PX = 52
/** Right edges of the columns of figures, from the right edge of the plot. */
const COLUMNS_PX = { mean: 204, wins: 262, p5: 316, worst: 380 }

const COST_HEIGHT = SAVING_HEAD_PX + 4 * ROW_PX + 40

function drawCost(report: BacktestReport, blocks: Blocks, box: Box): string {
  const rows = rowsOf(report)
  const domain = domainOf(rows.slice(0, 3))
  const left = box.left + NAMES_PX
  const right = left + PLOT_PX
  const at = scale(domain, [left, right])
  const top = box.top + SAVING_HEAD_PX
  const bottom = top + rows.length * ROW_PX
  return group(
    {},
    text(box.left, box.top + 12, 'Saving against the TWAP of the same window: mean and 95 % interval', TITLE),
    text(box.left, box.top + 28, basis(blocks), SMALL),
    columnHeads(right, top - 8),
    ...axis(at, { domain, top, bottom }),
    ...rows.map((row, i) => drawRow(row, { at, domain, left, right, y: top + (i + 0.5) * ROW_PX })),
    text((left + right) / 2, bottom + 32, 'basis points; right of zero is cheaper than the TWAP', CENTRED),
  )
}

const basis = ({ count, days }: Blocks): string =>
  `intervals by drawing from ${counted(count, 'calendar block')} of ${days} days` +
  (count < BLOCKS_MIN ? ': too few to lean on' : '')

function rowsOf({ baselines, drift_bp, ...policy }: BacktestReport): Row[] {
  const of = (name: string, summary: Summary): Row => ({
    name,
    mean: summary.mean_bp,
    interval: summary.mean_bp_ci95,
    summary,
  })
  return [
    of('with live prices', policy),
    { name: 'of which market drift', mean: drift_bp, interval: null, summary: null },
    of('by the clock, no prices', baselines.clock),
    of('lump at the start', baselines.lump),
  ]
}

/** Room for the policy, its drift and the clock. A lump moves ten times as far and would press them into one point. */
function domainOf(rows: Row[]): [number, number] {
  const ends = [0, ...rows.flatMap(({ mean, interval }) => interval ?? [mean])]
  const [low, high] = [Math.min(...ends), Math.max(...ends)]
  const margin = Math.max(0.1 * (high - low), 0.05)
  return [low - margin, high + margin]
}

function axis(
  at: Scale,
  { domain, top, bottom }: { domain: [number, number]; top: number; bottom: number },
): string[] {
  const values = ticks(domain, 7)
  const labels = axisLabels(values)
  return values.flatMap((value, i) => [
    line(at(value), top, at(value), bottom, value === 0 ? { stroke: INK } : { stroke: RULE }),
    text(at(value), bottom + 16, labels[i] ?? '', CENTRED),
  ])
}

function columnHeads(right: number, y: number): string {
  const heads: [number, string][] = [
    [COLUMNS_PX.mean, 'mean [95 %]'],
    [COLUMNS_PX.wins, 'wins'],
    [COLUMNS_PX.p5, 'p5'],
    [COLUMNS_PX.worst, 'worst'],
  ]
  return group({}, ...heads.map(([x, name]) => text(right + x, y, name, RIGHT)))
}

/** Two decimals where they show on which side of zero a value lies. */
const short = (value: number): string => signed(value, Math.abs(value) < 10 ? 2 : 1)

type Place = { at: Scale; domain: [number, number]; left: number; right: number; y: number }

function drawRow(row: Row, place: Place): string {
  const { left, right, y } = place
  const ink = { 'font-size': 12, fill: INK }
  const figure = (x: number, words: string): string =>
    text(right + x, y + 4, words, { ...ink, 'text-anchor': 'end' })
  const { interval, summary } = row
  const range = interval ? ` [${short(interval[0])}, ${short(interval[1])}]` : ''
  return group(
    {},
    text(left - 16, y + 4, row.name, { ...ink, 'text-anchor': 'end' }),
    ...bar(row, place),
    figure(COLUMNS_PX.mean, `${signed(row.mean, 2)}${range}`),
    ...(summary
      ? [
          figure(COLUMNS_PX.wins, `${(100 * summary.win_rate).toFixed(1)} %`),
          figure(COLUMNS_PX.p5, signed(summary.p5_bp, 0)),
          figure(COLUMNS_PX.worst, signed(summary.worst_bp, 0)),
        ]
      : []),
  )
}

/** The interval as a bar and the mean as a point; what lies beyond the axis ends in an arrow and says so. */
function bar({ mean, interval, summary }: Row, { at, domain, left, right, y }: Place): string[] {
  const colour = summary === null ? QUIET : POLICY
  const [low, high] = interval ?? [mean, mean]
  const [from, to] = [Math.max(low, domain[0]), Math.min(high, domain[1])]
  const drawn: string[] = []
  const style = { stroke: colour, 'stroke-width': 3, 'stroke-linecap': 'round' }
  if (from < to) drawn.push(line(at(from), y, at(to), y, style))
  if (low < domain[0]) drawn.push(arrow(left, y, -1))
  if (high > domain[1]) drawn.push(arrow(right, y, 1))
  if (domain[0] <= mean && mean <= domain[1]) {
    const fill = interval === null ? '#ffffff' : colour
    drawn.push(element('circle', { cx: at(mean), cy: y, r: 5, fill, stroke: colour, 'stroke-width': 1.5 }))
  } else {
    const inside = mean < domain[0] ? { x: left + 12, anchor: 'start' } : { x: right - 12, anchor: 'end' }
    drawn.push(
      text(inside.x, y - 5, `mean off the scale: ${signed(mean, 1)}`, {
        ...SMALL,
        'text-anchor': inside.anchor,
        // A rim of paper keeps the grid from crossing the figure.
        'paint-order': 'stroke',
        stroke: '#ffffff',
        'stroke-width': 3,
      }),
    )
  }
  return drawn
}

const arrow = (x: number, y: number, direction: 1 | -1): string =>
  element('path', { d: `M${x},${y - 5} L${x + 8 * direction},${y} L${x},${y + 5} Z`, fill: POLICY })

// The window panel: one window as it was played: the price, the slots, every tranche where it fired and why, and the
// two averages. It is the window with the median saving, so that it is not hand-picked.

const WINDOW_HEAD_PX = 66
const WINDOW_FOOT_PX = 70
const PRICES_PX = 58
const TIME_STEPS_MS = [4, 6, 12, 24, 48, 96].map((hours) => hours * HOUR_MS)
const TIME_TICKS_MAX = 7
const LEGEND_ITEM_PX = 96

/** The first window whose saving is the median of all. */
export function medianWindow(results: readonly WindowResult[]): WindowResult {
  const savings = results.map((window) => saving(window, window.cost))
  const found = results[savings.indexOf(quantile(savings, 0.5))]
  if (!found) throw new RangeError('no window to draw')
  return found
}

function drawExample(window: WindowResult, history: History, box: Box): string {
  const of = visible(window, history)
  const left = box.left + PRICES_PX
  const right = box.left + box.width
  const top = box.top + WINDOW_HEAD_PX
  const bottom = box.top + box.height - WINDOW_FOOT_PX
  const low = Math.min(...of.map((point) => point.value))
  const high = Math.max(...of.map((point) => point.value))
  const x = scale([window.start, window.end], [left, right])
  const y = scale([low - 0.06 * (high - low), high + 0.06 * (high - low)], [bottom, top])
  const frame = { left, right, top, bottom, x, y }
  return group(
    {},
    text(box.left, box.top + 12, 'The window with the median saving', TITLE),
    text(box.left, box.top + 28, inWords(window), SMALL),
    ...slotBands(window, frame),
    ...ticks([low, high], 4).flatMap((value) => [
      line(left, y(value), right, y(value), { stroke: RULE }),
      text(left - 6, y(value) + 4, dollars(value), RIGHT),
    ]),
    ...timeAxis(window, frame),
    element('polyline', { points: path(of, frame), fill: 'none', stroke: QUIET, 'stroke-width': 1 }),
    ...averages(window, frame),
    ...tranches(window, history, frame),
    ...legend(window, { left: box.left, top: bottom + 40 }),
  )
}

type Frame = { left: number; right: number; top: number; bottom: number; x: Scale; y: Scale }
type Point = { at: number; value: number }

const day = (at: Instant): string => formatInstant(at).slice(0, 16).replace('T', ' ')

/** To the cent where the price is small enough for cents to matter. */
const dollars = (value: number): string => {
  const places = value < 1_000 ? 2 : 0
  return value.toLocaleString('en-US', { minimumFractionDigits: places, maximumFractionDigits: places })
}

function inWords(window: WindowResult): string {
  const tranches = counted(window.fires.length, 'tranche')
  return `${day(window.start)} UTC on: ${tranches}, ${signed(saving(window, window.cost), 1)} bp against the TWAP`
}

function visible({ firstBar, bars }: WindowResult, { at, value }: History): Point[] {
  return Array.from({ length: bars }, (_, i) => ({
    at: at[firstBar + i] ?? 0,
    value: value[firstBar + i] ?? 0,
  }))
}

/** The price line: of bars that share a pixel column the first, the lowest, the highest and the last are kept. */
function path(points: Point[], { x, y }: Frame): string {
  const columns = Map.groupBy(points, (point) => Math.round(x(point.at)))
  const kept = [...columns.values()].flatMap((column) => {
    if (column.length <= 4) return column
    const values = column.map((point) => point.value)
    const extremes = [Math.min(...values), Math.max(...values)].map((value) => values.indexOf(value))
    return [...new Set([0, ...extremes, column.length - 1])]
      .sort((a, b) => a - b)
      .flatMap((i) => column[i] ?? [])
  })
  return kept.map((point) => `${x(point.at).toFixed(1)},${y(point.value).toFixed(1)}`).join(' ')
}

/** Every second slot is shaded: that shows the boundaries and leaves the price line clear. */
function slotBands({ start, end, slots }: WindowResult, { x, top, bottom }: Frame): string[] {
  const edge = (i: number): number => x(start + ((end - start) * i) / slots)
  return Array.from({ length: slots }, (_, i) =>
    element('rect', {
      x: edge(i),
      y: top,
      width: edge(i + 1) - edge(i),
      height: bottom - top,
      fill: i % 2 === 0 ? '#f3f5f7' : '#ffffff',
    }),
  )
}

function timeAxis({ start, end }: WindowResult, { x, bottom }: Frame): string[] {
  const step = TIME_STEPS_MS.find((ms) => (end - start) / ms <= TIME_TICKS_MAX) ?? 7 * DAY_MS
  const first = Math.ceil(start / step)
  return Array.from({ length: Math.floor(end / step) - first + 1 }, (_, i) => {
    const at = (first + i) * step
    const written = formatInstant(at as Instant)
    const shown = step < DAY_MS ? written.slice(11, 16) : written.slice(5, 10)
    return group(
      {},
      line(x(at), bottom, x(at), bottom + 4, { stroke: QUIET }),
      text(x(at), bottom + 16, shown, CENTRED),
    )
  })
}

/** Both averages, labelled on the side where they do not meet: they are often less than a pixel apart. */
function averages({ twap, cost }: WindowResult, { left, right, top, y }: Frame): string[] {
  const names = [
    line(left, top - 10, left + 22, top - 10, {
      stroke: INK,
      'stroke-dasharray': '6 4',
      'stroke-width': 1.5,
    }),
    text(left + 28, top - 6, `TWAP ${dollars(twap)}`, { ...SMALL, fill: INK }),
    line(left + 150, top - 10, left + 172, top - 10, { stroke: POLICY, 'stroke-width': 1.5 }),
    text(left + 178, top - 6, `average paid ${dollars(cost)}`, { ...SMALL, fill: POLICY }),
  ]
  return [
    line(left, y(cost), right, y(cost), { stroke: POLICY, 'stroke-width': 1.5 }),
    line(left, y(twap), right, y(twap), { stroke: INK, 'stroke-dasharray': '6 4', 'stroke-width': 1.5 }),
    ...names,
  ]
}

function tranches({ fires, firstBar }: WindowResult, { at, value }: History, { x, y }: Frame): string[] {
  return fires.map(({ bar, trigger }) =>
    mark(trigger, x(at[firstBar + bar] ?? 0), y(value[firstBar + bar] ?? 0)),
  )
}

function legend({ fires }: WindowResult, { left, top }: { left: number; top: number }): string[] {
  const used = TRIGGERS.filter((trigger) => fires.some((fire) => fire.trigger === trigger))
  const many = (trigger: Trigger): number => fires.filter((fire) => fire.trigger === trigger).length
  return used.map((trigger, i) => {
    const x = left + 6 + i * LEGEND_ITEM_PX
    return group(
      {},
      mark(trigger, x, top - 4),
      text(x + 10, top, `${TRIGGER_NAME[trigger]} ${many(trigger)}`, SMALL),
    )
  })
}

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
