// Panel 1: what each way of buying cost against the time-weighted average price, as mean and interval, with the win
// rate and the tails in words beside it: a win rate alone would promise more than the mean delivers.

import { counted } from '../../core/counted.ts'
import {
  type BacktestReport,
  BLOCKS_MIN,
  type Blocks,
  type Summary,
} from '../../engine/backtest/savings-report.ts'
import { axisLabels, CENTRED, INK, POLICY, QUIET, RIGHT, RULE, SMALL, signed, TITLE } from './style.ts'
import { type Box, element, group, line, type Scale, scale, text, ticks } from './svg.ts'

type Row = { name: string; mean: number; interval: [number, number] | null; summary: Summary | null }

const NAMES_PX = 180
const PLOT_PX = 326
const ROW_PX = 24
const HEAD_PX = 52
/** Right edges of the columns of figures, from the right edge of the plot. */
const COLUMNS_PX = { mean: 204, wins: 262, p5: 316, worst: 380 }

export const COST_HEIGHT = HEAD_PX + 4 * ROW_PX + 40

export function drawCost(report: BacktestReport, blocks: Blocks, box: Box): string {
  const rows = rowsOf(report)
  const domain = domainOf(rows.slice(0, 3))
  const left = box.left + NAMES_PX
  const right = left + PLOT_PX
  const at = scale(domain, [left, right])
  const top = box.top + HEAD_PX
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
