// Two panels of the chart of a backtest: what each way of buying saved in the mean, and how the savings of single
// windows spread.

import { counted } from '../../core/text.ts'
import { type BacktestReport, mean, quantile, type Summary } from '../../engine/backtest-savings.ts'
import {
  axisLabels,
  type Box,
  CENTRED,
  element,
  group,
  INK,
  line,
  PALE,
  PANEL_FOOT_PX,
  PANEL_HEAD_PX,
  POLICY,
  QUIET,
  RIGHT,
  RIM,
  RULE,
  type Scale,
  SMALL,
  scale,
  signed,
  TAIL,
  TITLE,
  text,
  ticks,
} from './chart-style.ts'
import { hasFewBlocks } from './verdict.ts'

// The saving panel: what each way of buying cost against the time-weighted average price, as mean and interval, with
// the win rate and the tails in words beside it: a win rate alone would promise more than the mean delivers.

type Row = {
  name: string
  /** None for the range of means by start. */
  mean: number | null
  interval: [number, number] | null
  summary: Summary | null
}

const NAMES_PX = 190
const PLOT_PX = 316
const ROW_PX = 24
const SAVING_HEAD_PX = 54
const SAVING_FOOT_PX = 56
/** Right edges of the columns of figures, from the right edge of the plot. */
const COLUMNS_PX = { mean: 204, wins: 262, p5: 316, worst: 380 }

export const costHeight = (report: BacktestReport): number =>
  SAVING_HEAD_PX + rowsOf(report).length * ROW_PX + SAVING_FOOT_PX

export function drawCost(report: BacktestReport, box: Box): string {
  const rows = rowsOf(report)
  const domain = domainOf(rows.slice(0, SCALED_ROWS))
  const left = box.left + NAMES_PX
  const right = left + PLOT_PX
  const at = scale(domain, [left, right])
  const top = box.top + SAVING_HEAD_PX
  const bottom = top + rows.length * ROW_PX
  return group(
    {},
    text(
      box.left,
      box.top + 12,
      'Mean saving against the average price of the same window, beside other ways of buying',
      TITLE,
    ),
    text(box.left, box.top + 28, basis(report), SMALL),
    columnHeads(right, top - 8),
    ...axis(at, { domain, top, bottom }),
    ...rows.map((row, i) => drawRow(row, { at, domain, left, right, y: top + (i + 0.5) * ROW_PX })),
    text(
      (left + right) / 2,
      bottom + 32,
      'saving in basis points; right of zero is cheaper than the average',
      CENTRED,
    ),
    ...costLegend(box.left, bottom + 52),
  )
}

const basis = (report: BacktestReport): string =>
  `intervals by drawing from ${counted(report.blocks, 'calendar block')} of ${report.block_days} days` +
  (hasFewBlocks(report) ? ': too few to lean on' : '')

/** The rows that the axis has room for. A lump moves ten times as far and would press them into one point. */
const SCALED_ROWS = 4

/** Whether plain DCA is the lump: one purchase a day is the only one of a daily window. */
export const isLump = ({ frequency }: Pick<BacktestReport, 'frequency'>): boolean => frequency === 'daily'

function rowsOf({ baselines, drift_bp, starts, frequency, ...policy }: BacktestReport): Row[] {
  const of = (name: string, summary: Summary): Row => ({
    name,
    mean: summary.mean_bp,
    interval: summary.mean_bp_ci95,
    summary,
  })
  const byStart: [number, number] = [starts.lowest_mean_bp, starts.highest_mean_bp]
  return [
    of('with live prices', policy),
    { name: 'the same, by start of plan', mean: null, interval: byStart, summary: null },
    { name: 'of which market drift', mean: drift_bp, interval: null, summary: null },
    of('by the clock, no prices', baselines.clock),
    of(isLump({ frequency }) ? 'plain DCA, lump at start' : 'plain DCA, once a day', baselines.dca),
    ...(isLump({ frequency }) ? [] : [of('lump at the start', baselines.lump)]),
  ]
}

function domainOf(rows: Row[]): [number, number] {
  const ends = [0, ...rows.flatMap(({ mean, interval }) => interval ?? mean ?? [])]
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
    [COLUMNS_PX.mean, 'mean [95 %], bp'],
    [COLUMNS_PX.wins, 'wins'],
    [COLUMNS_PX.p5, 'p5, bp'],
    [COLUMNS_PX.worst, 'worst, bp'],
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
  const { mean, interval, summary } = row
  const range = interval ? `[${short(interval[0])}, ${short(interval[1])}]` : ''
  const words =
    mean === null
      ? `${short(interval?.[0] ?? 0)} to ${short(interval?.[1] ?? 0)}`
      : `${signed(mean, 2)} ${range}`
  return group(
    {},
    text(left - 16, y + 4, row.name, { ...ink, 'text-anchor': 'end' }),
    ...(mean === null ? span(row, place) : bar({ ...row, mean }, place)),
    figure(COLUMNS_PX.mean, words.trimEnd()),
    ...(summary
      ? [
          figure(COLUMNS_PX.wins, `${(100 * summary.win_rate).toFixed(1)} %`),
          figure(COLUMNS_PX.p5, signed(summary.p5_bp, 0)),
          figure(COLUMNS_PX.worst, signed(summary.worst_bp, 0)),
        ]
      : []),
  )
}

/** A range without a middle: a thin line between two posts. */
const span = ({ interval }: Pick<Row, 'interval'>, { at, y }: Pick<Place, 'at' | 'y'>): string[] => {
  const [from, to] = [at(interval?.[0] ?? 0), at(interval?.[1] ?? 0)]
  const style = { stroke: QUIET, 'stroke-width': 1.5 }
  return [
    line(from, y, to, y, style),
    line(from, y - 5, from, y + 5, style),
    line(to, y - 5, to, y + 5, style),
  ]
}

/** The interval as a bar and the mean as a point; what lies beyond the axis ends in an arrow and says so. */
function bar({ mean, interval, summary }: Row & { mean: number }, place: Place): string[] {
  const { at, domain, left, right, y } = place
  const colour = summary === null ? QUIET : POLICY
  const [low, high] = interval ?? [mean, mean]
  const [from, to] = [Math.max(low, domain[0]), Math.min(high, domain[1])]
  const drawn: string[] = []
  const style = { stroke: colour, 'stroke-width': 3, 'stroke-linecap': 'round' }
  const inner = { from: low < from ? left + ARROW_PX : at(from), to: high > to ? right - ARROW_PX : at(to) }
  if (from < to) drawn.push(line(inner.from, y, inner.to, y, style))
  if (low < domain[0]) drawn.push(arrow(left, y, -1))
  if (high > domain[1]) drawn.push(arrow(right, y, 1))
  if (domain[0] <= mean && mean <= domain[1]) {
    const fill = interval === null ? '#ffffff' : colour
    // Near an edge a point stays inside.
    const cx = Math.min(Math.max(at(mean), left + POINT_PX), right - POINT_PX)
    drawn.push(element('circle', { cx, cy: y, r: POINT_PX, fill, stroke: colour, 'stroke-width': 1.5 }))
  } else {
    const inside = mean < domain[0] ? { x: left + 12, anchor: 'start' } : { x: right - 12, anchor: 'end' }
    drawn.push(
      text(inside.x, y - 5, `mean off the scale: ${signed(mean, 1)}`, {
        ...SMALL,
        ...RIM,
        'text-anchor': inside.anchor,
      }),
    )
  }
  return drawn
}

const POINT_PX = 5
const ARROW_PX = 8

/** An arrow whose point is at `x`. */
const arrow = (x: number, y: number, direction: 1 | -1): string =>
  element('path', {
    d: `M${x - ARROW_PX * direction},${y - 5} L${x},${y} L${x - ARROW_PX * direction},${y + 5} Z`,
    fill: POLICY,
  })

function costLegend(left: number, y: number): string[] {
  const middle = y - 4
  const thick = { stroke: POLICY, 'stroke-width': 3, 'stroke-linecap': 'round' }
  const items: [number, string[], string][] = [
    [
      0,
      [
        line(left + 2, middle, left + 24, middle, thick),
        element('circle', { cx: left + 13, cy: middle, r: POINT_PX, fill: POLICY }),
      ],
      'mean and 95 % interval',
    ],
    [
      192,
      [arrow(left + 216, middle, 1), line(left + 194, middle, left + 208, middle, thick)],
      'goes on beyond the axis',
    ],
    [
      384,
      span({ interval: [left + 386, left + 408] }, { at: (x) => x, y: middle }),
      'means of the plans that begin at each moment',
    ],
    [
      706,
      [
        element('circle', {
          cx: left + 718,
          cy: middle,
          r: POINT_PX,
          fill: '#ffffff',
          stroke: QUIET,
          'stroke-width': 1.5,
        }),
      ],
      'mean alone',
    ],
  ]
  return items.flatMap(([x, drawn, words]) => [...drawn, text(left + x + 32, y, words, SMALL)])
}

// The distribution panel: how the savings of single windows spread. The middle 98 % are drawn, and what lies outside is
// counted.

const BINS = 44
const DRAWN_SHARE = 0.98
const SHARES_PX = 40
/** What its words need beside the line of the 5th percentile. */
const P5_LABEL_PX = 88

export function drawDistribution(savings: Float64Array, box: Box): string {
  const half = (1 - DRAWN_SHARE) / 2
  const domain = widened(quantile(savings, half), quantile(savings, 1 - half))
  const shares = binned(savings, domain)
  const top = box.top + PANEL_HEAD_PX
  const bottom = box.top + box.height - PANEL_FOOT_PX
  const [left, right] = [box.left + SHARES_PX, box.left + box.width]
  const x = scale(domain, [left, right])
  const y = scale([0, Math.max(...shares) || 1], [bottom, top])
  const p5 = quantile(savings, 0.05)
  return group(
    {},
    text(box.left, box.top + 12, 'How the saving spreads over single windows', TITLE),
    text(box.left, box.top + 28, domainLegend(domain), SMALL),
    ...shareAxis([0, Math.max(...shares) || 1], { left, right, y }),
    group({}, ...shares.map((share, i) => bin(share, i, { domain, x, y, p5 }))),
    line(left, bottom, right, bottom, { stroke: RULE }),
    ...savingAxis(domain, { x, bottom, left, right }),
    ...marked(savings, { x, top, bottom, p5, left, right }),
    ...tails(savings, domain, { ...box, left, width: right - left, top: bottom + 56 }),
    binLegend(left, bottom + 92),
  )
}

const domainLegend = ([low, high]: [number, number]): string =>
  `a bar is ${((high - low) / BINS).toFixed(1)} bp wide; the middle 98 % of the windows are drawn`

function widened(low: number, high: number): [number, number] {
  const margin = low === high ? 1 : 0
  return [Math.min(low, 0) - margin, Math.max(high, 0) + margin]
}

/** The share of the windows in each bar, in percent. */
function binned(savings: Float64Array, [low, high]: [number, number]): number[] {
  const shares = new Array<number>(BINS).fill(0)
  for (const value of savings) {
    if (value < low || value > high) continue
    const i = Math.min(BINS - 1, Math.floor(((value - low) / (high - low)) * BINS))
    shares[i] = (shares[i] ?? 0) + 100 / savings.length
  }
  return shares
}

function shareAxis(
  range: [number, number],
  { left, right, y }: { left: number; right: number; y: Scale },
): string[] {
  const values = ticks(range, 4)
  return [
    ...values.flatMap((value) => [
      line(left, y(value), right, y(value), { stroke: RULE }),
      text(left - 6, y(value) + 4, `${value} %`, RIGHT),
    ]),
    text(left - SHARES_PX, y(range[1]) - 24, 'share of windows', SMALL),
  ]
}

function savingAxis(
  domain: [number, number],
  { x, bottom, left, right }: { x: Scale; bottom: number; left: number; right: number },
): string[] {
  const values = ticks(domain, 6)
  const labels = axisLabels(values)
  return [
    ...values.map((value, i) => text(x(value), bottom + 16, labels[i] ?? '', CENTRED)),
    text((left + right) / 2, bottom + 34, 'saving of a window in basis points', CENTRED),
  ]
}

type Axes = { domain: [number, number]; x: Scale; y: Scale; p5: number }

function bin(share: number, i: number, { domain: [low, high], x, y, p5 }: Axes): string {
  const step = (high - low) / BINS
  const from = low + i * step
  const fill = from + step <= p5 ? TAIL : PALE
  return element('rect', {
    x: x(from) + 0.5,
    y: y(share),
    width: Math.max(0.5, x(from + step) - x(from) - 1),
    height: y(0) - y(share),
    fill,
  })
}

type Bounds = { x: Scale; top: number; bottom: number; left: number; right: number }

function marked(
  savings: Float64Array,
  { x, top, bottom, p5, left, right }: Bounds & { p5: number },
): string[] {
  const middle = mean(savings)
  const side = x(p5) - left < P5_LABEL_PX ? { dx: 5, anchor: 'start' } : { dx: -5, anchor: 'end' }
  const label = Math.min(Math.max(x(middle), left + MEAN_LABEL_PX / 2), right - MEAN_LABEL_PX / 2)
  return [
    line(x(0), top, x(0), bottom, { stroke: INK, 'stroke-dasharray': '1 3' }),
    line(x(p5), top + 20, x(p5), bottom, { stroke: TAIL, 'stroke-width': 1.5, 'stroke-dasharray': '5 3' }),
    ...['5th percentile', `${signed(p5, 1)} bp`].map((words, i) =>
      text(x(p5) + side.dx, top + 30 + 15 * i, words, {
        ...SMALL,
        ...RIM,
        fill: TAIL,
        'text-anchor': side.anchor,
      }),
    ),
    line(x(middle), top - 6, x(middle), bottom, { stroke: POLICY, 'stroke-width': 1.5 }),
    text(label, top - 12, `mean ${signed(middle, 2)} bp`, { ...CENTRED, fill: POLICY }),
  ]
}

const MEAN_LABEL_PX = 90

/** What the drawing leaves out, in words: a plan is hurt in the tails. */
function tails(savings: Float64Array, [low, high]: [number, number], { left, width, top }: Box): string[] {
  const below = savings.filter((value) => value < low).length
  const above = savings.filter((value) => value > high).length
  const outside = (n: number): string => `${counted(n, 'window')} outside`
  const end = { ...SMALL, 'text-anchor': 'end' }
  return [
    text(left, top, `\u25C2 ${outside(below)}`, { ...SMALL, fill: TAIL }),
    text(left, top + 16, `worst ${signed(quantile(savings, 0), 0)} bp`, { ...SMALL, fill: TAIL }),
    text(left + width, top, `${outside(above)} \u25B8`, end),
    text(left + width, top + 16, `best ${signed(quantile(savings, 1), 0)} bp`, end),
  ]
}

function binLegend(left: number, y: number): string {
  const swatch = (x: number, fill: string): string =>
    element('rect', { x, y: y - 9, width: 10, height: 10, fill })
  return group(
    {},
    swatch(left, TAIL),
    text(left + 16, y, 'the worst twentieth of the windows', SMALL),
    line(left + 230, y - 4, left + 250, y - 4, { stroke: INK, 'stroke-dasharray': '1 3' }),
    text(left + 256, y, 'no saving', SMALL),
  )
}
