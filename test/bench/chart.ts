// How cost grows with the number of plans, drawn from the row `growth` of a report: one panel for each figure.

import {
  count,
  element,
  FONT,
  group,
  INK,
  line,
  PALE,
  POLICY,
  RULE,
  SMALL,
  scale,
  TITLE,
  text,
} from '../../src/cli/trial/svg.ts'
import type { Figure, Result } from './row.ts'
import type { Spread } from './statistics.ts'
import { figureInWords } from './words.ts'

const PANEL_PX = { width: 210, height: 150 }
const GAP_PX = 40
const MARGIN_PX = 24
const HEAD_PX = 64
const FOOT_PX = 40
/** Room above the highest value, for what is written there. */
const HEADROOM = 1.25

const PANELS: [figure: Figure, title: string][] = [
  ['idle_ms', 'an idle tick, with its start (ms)'],
  ['cpu_us', 'processor time of a tranche (µs)'],
  ['start_ms', 'a start of serve (ms)'],
  ['file_mib', 'the file (MiB)'],
]

type Point = { plans: number; spread: Spread }

/** The same report gives the same bytes. Panels without two sizes are left out. */
export function drawGrowth(row: Result): string {
  const panels = PANELS.map(([figure, title]) => ({ figure, title, points: pointsOf(row, figure) })).filter(
    ({ points }) => points.length > 1,
  )
  const width = 2 * MARGIN_PX + panels.length * PANEL_PX.width + (panels.length - 1) * GAP_PX
  const height = HEAD_PX + PANEL_PX.height + FOOT_PX
  return `${element(
    'svg',
    {
      xmlns: 'http://www.w3.org/2000/svg',
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      style: FONT,
      role: 'img',
    },
    element('title', {}, 'What grows with the number of plans'),
    element('rect', { width, height, fill: '#ffffff' }),
    text(MARGIN_PX, 28, 'What grows with the number of plans', { ...TITLE, 'font-size': 16 }),
    ...panels.map(({ figure, title, points }, i) =>
      drawPanel(points, { figure, title, left: MARGIN_PX + i * (PANEL_PX.width + GAP_PX) }),
    ),
  )}\n`
}

/** The contestants are named after their size. */
function pointsOf({ contestants }: Result, figure: Figure): Point[] {
  return contestants.flatMap(({ name, figures }) => {
    const plans = Number(name.replace(/\D/g, ''))
    const spread = figures[figure]
    return spread && plans > 0 ? [{ plans, spread }] : []
  })
}

type Panel = { figure: Figure; title: string; left: number }

function drawPanel(points: readonly Point[], { figure, title, left }: Panel): string {
  const bottom = HEAD_PX + PANEL_PX.height
  const plans = points.map((point) => Math.log10(point.plans))
  const most = Math.max(...points.map(({ spread }) => spread.most))
  const inset = 16
  const x = scale([Math.min(...plans), Math.max(...plans)], [left + inset, left + PANEL_PX.width - inset])
  const y = scale([0, (most || 1) * HEADROOM], [bottom, HEAD_PX])
  const at = ({ plans, spread }: Point) => ({ x: x(Math.log10(plans)), y: y(spread.median), spread, plans })
  const path = points.map((point) => `${at(point).x.toFixed(2)},${at(point).y.toFixed(2)}`).join(' ')
  return group(
    {},
    text(left, HEAD_PX - 10, title, SMALL),
    line(left, bottom, left + PANEL_PX.width, bottom, { stroke: RULE }),
    element('polyline', { points: path, fill: 'none', stroke: PALE, 'stroke-width': 2 }),
    ...points.map(at).flatMap(({ x, y: top, spread, plans }) => [
      line(x, y(spread.least), x, y(spread.most), { stroke: POLICY, 'stroke-width': 1.5 }),
      element('circle', { cx: x, cy: top, r: 4, fill: POLICY }),
      text(x, y(spread.most) - 8, figureInWords(figure, spread).replace(/[^\d.,].*$/, ''), {
        ...SMALL,
        fill: INK,
        'text-anchor': 'middle',
      }),
      text(x, bottom + 16, count(plans), { ...SMALL, 'text-anchor': 'middle' }),
    ]),
  )
}
