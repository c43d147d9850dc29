// Panel 2: how the savings of single windows spread. The middle 98 % are drawn, and what lies outside is counted.

import { counted } from '../../core/counted.ts'
import { mean, quantile } from '../../engine/backtest/statistics.ts'
import { axisLabels, CENTRED, INK, PALE, POLICY, QUIET, RULE, SMALL, signed, TAIL, TITLE } from './style.ts'
import { type Box, element, group, line, type Scale, scale, text, ticks } from './svg.ts'

const BINS = 44
const DRAWN_SHARE = 0.98
const HEAD_PX = 66
const FOOT_PX = 70
/** What its words need beside the line of the 5th percentile. */
const P5_LABEL_PX = 70

export function drawDistribution(savings: readonly number[], box: Box): string {
  const half = (1 - DRAWN_SHARE) / 2
  const domain = widened(quantile(savings, half), quantile(savings, 1 - half))
  const counts = binned(savings, domain)
  const top = box.top + HEAD_PX
  const bottom = box.top + box.height - FOOT_PX
  const x = scale(domain, [box.left, box.left + box.width])
  const y = scale([0, Math.max(1, ...counts)], [bottom, top])
  const p5 = quantile(savings, 0.05)
  const values = ticks(domain, 6)
  const labels = axisLabels(values)
  const bars = counts.map((n, i) => bin(n, i, { domain, x, y, p5 }))
  return group(
    {},
    text(box.left, box.top + 12, 'How the saving spreads over the windows', TITLE),
    text(box.left, box.top + 28, legend(domain), SMALL),
    ...values.map((value, i) => text(x(value), bottom + 16, labels[i] ?? '', CENTRED)),
    group({}, ...bars),
    line(box.left, bottom, box.left + box.width, bottom, { stroke: RULE }),
    line(x(0), top - 4, x(0), bottom, { stroke: INK, 'stroke-dasharray': '1 3' }),
    ...marked(savings, { x, top, bottom, p5, left: box.left }),
    ...tails(savings, domain, { ...box, top: bottom + 32 }),
  )
}

const legend = ([low, high]: [number, number]): string =>
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
