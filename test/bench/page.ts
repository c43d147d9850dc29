// What docs/performance.md says in numbers, written between marks of the page from the reports of two runs: on a file
// and on a server.

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
import { capacityOf, capacityOfServer } from './capacity.ts'
import type { Spread } from './ratios.ts'
import type { Report } from './report.ts'
import { type Failure, FIGURES, type Figure, hasFailed, type Result } from './row.ts'
import { figureInWords, figureOf, figuresIn, goalsOf, ratiosOf } from './words.ts'

/** What is between `<!-- bench: NAME -->` and `<!-- end -->`. */
const PARTS: Record<string, (reports: Reports) => string> = {
  figures: ({ file }) => figuresOf(file),
  capacity: ({ file }) => sentences(capacityOf(file)),
  'postgres figures': ({ postgres }) => figuresOf(postgres),
  'postgres capacity': ({ postgres }) => sentences(capacityOfServer(postgres)),
}
type Reports = { file: Report; postgres: Report }
const END = '<!-- end -->'

/** The page with what the reports say, in its places. Throws when it has none for a part. */
export function withFigures(page: string, reports: Reports): string {
  return Object.entries(PARTS).reduce((text, [name, write]) => {
    const mark = `<!-- bench: ${name} -->`
    const begin = text.indexOf(mark)
    const end = text.indexOf(END, begin)
    if (begin < 0 || end < 0) throw new Error(`the page has no ${mark} before an ${END}`)
    return `${text.slice(0, begin)}${mark}\n\n${write(reports)}\n${text.slice(end)}`
  }, page)
}

const sentences = (all: readonly string[]): string => all.map((sentence) => `- ${sentence}\n`).join('')

function figuresOf({ at, commit, quick, machine, rows }: Report): string {
  const { cores, processor, memoryGib, node, sqlite, postgres, system } = machine
  const options = [...(postgres === undefined ? [] : ['--store postgres']), ...(quick ? ['--quick'] : [])]
  const run = `\`npm run bench${options.length > 0 ? ` -- ${options.join(' ')}` : ''}\``
  const server = postgres === undefined ? '' : `, PostgreSQL ${postgres}`
  return [
    `Measured ${at.slice(0, 10)} at commit \`${commit}\` with ${run}: ${cores} cores (${processor}), ${memoryGib} GiB,`,
    `${system}, Node ${node}, SQLite ${sqlite}${server}.`,
    '',
    ...tableOf(['row', 'goal', 'measured', ''], rows.flatMap(goalsAt)),
    '',
    ...rows.flatMap((row) => [...(hasFailed(row) ? [failed(row)] : measured(row)), '']),
  ].join('\n')
}

function goalsAt(row: Result | Failure): string[][] {
  if (hasFailed(row)) return [[`\`${row.name}\``, '', '', 'not measured']]
  const goals = goalsOf(row).filter(({ isErrors, verdict }) => !(isErrors && verdict === 'met'))
  return goals.map(({ words, value, verdict }) => [`\`${row.name}\``, words, value, verdict])
}

/** A row by itself: what it is, a line for each contestant with what was measured of it, and the ratios. */
function measured(row: Result): string[] {
  const { name, what, on, rounds, contestants, main, notes } = row
  const figures = figuresIn(row)
  return [
    `**\`${name}\`**: ${what}, on ${on}; ${rounds === 1 ? 'one round' : `${rounds} rounds`}.`,
    '',
    ...tableOf(
      ['', ...figures.map((figure) => FIGURES[figure].unit)],
      contestants.map((contestant) => [
        contestant.name,
        ...figures.map((figure) => figureOf(contestant, figure, figure === main)),
      ]),
    ),
    '',
    ...[...ratiosOf(row), ...notes].map((line) => `- ${line}`),
  ]
}

const failed = ({ name, what, failed }: Failure): string =>
  `**\`${name}\`**: ${what}. Not measured: ${failed}`

function tableOf(head: readonly string[], lines: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...lines.map(line)]
}

// How cost grows with the number of plans, drawn from the row `growth` of a report: one panel for each figure.

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
