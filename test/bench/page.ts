// What docs/performance.md says in numbers, between marks of the page, from the reports of two runs, on a file and on a
// server: `npm run bench:page` writes it, and the chart, from those in fixtures/bench/.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
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
} from '../../src/cli/trial/chart-style.ts'
import { FREQUENCIES, WINDOW_MS } from '../../src/core/window.ts'
import { slotMsOf } from '../../src/engine/slot-reserve.ts'
import {
  counted,
  figureInWords,
  figureOf,
  figuresIn,
  goalsOf,
  type Report,
  ratiosOf,
  readReport,
} from './report.ts'
import { type Failure, FIGURES, type Figure, hasFailed, type Result, type Spread } from './row.ts'

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

// What the measured rates mean for a service: how many plans one file carries, and one server.

const DAY_SECONDS = 86_400
const HOUR_SECONDS = 3_600
const MINUTE_SECONDS = 60
const UNITS_PER_SLOT = 2
const MIB_PER_GIB = 1_024

/** The most that a plan fires a day: a daily one has the most slots. */
const TRANCHES_A_DAY = Math.max(
  ...FREQUENCIES.map(
    (frequency) => (UNITS_PER_SLOT * 24 * HOUR_SECONDS * 1000) / slotMsOf(WINDOW_MS[frequency]),
  ),
)

/** Two digits: more would promise what a machine of its own kind does not keep. */
const about = (value: number): string => counted(Number(value.toPrecision(2)))

type Rows = Pick<Report, 'rows'>

function find({ rows }: Rows, name: string): Result | null {
  const row = rows.find((each) => each.name === name)
  return row && !hasFailed(row) ? row : null
}

/** A sentence for each row that was measured. */
export function capacityOf(report: Rows): string[] {
  const [confirm, pass, growth] = ['confirm', 'pass', 'growth'].map((name) => find(report, name))
  return [
    ...(confirm ? confirmed(rateOf(confirm)) : []),
    ...(pass ? fired(rateOf(pass)) : []),
    ...(growth ? stored(growth, { figure: 'file_mib', of: 'file' }) : []),
  ]
}

/** The same of a server, of which a machine that is busy tells ratios better than rates. */
export function capacityOfServer(report: Rows): string[] {
  const of = (name: string) => find(report, name)
  const [confirm, pass, together, growth] = [of('confirm'), of('pass'), of('pass-together'), of('growth')]
  const toFile = ['confirm', 'confirm-alone', 'plan', 'pass'].flatMap((name) => {
    const spread = of(name)?.ratios['rate to a file']?.spread
    return spread ? [`\`${name}\` ${spread.median.toFixed(2)}`] : []
  })
  const wal = pass?.contestants[0]?.figures.wal_bytes?.median
  return [
    ...(toFile.length > 0 ? [`Of the rate on a file, in the same run: ${toFile.join(', ')}.`] : []),
    ...(confirm
      ? [
          `One partner's confirmations on one \`serve\`: about ${about(rateOf(confirm))} a second, as they share one transaction after the other. Other partners have transactions of their own beside it.`,
        ]
      : []),
    ...(together
      ? [
          `Four ticks at once fire about ${about(rateOf(together))} tranches a second, where one alone fires ${about(rateOf(together, 1))}.`,
        ]
      : []),
    ...(wal === undefined
      ? []
      : [
          `A tranche that fires takes about ${about(wal)} bytes of the log, with every page that is changed for the first time after a checkpoint.`,
        ]),
    ...(growth ? stored(growth, { figure: 'database_mib', of: 'database' }) : []),
  ]
}

const rateOf = ({ contestants }: Result, of = 0): number =>
  contestants[of]?.figures.per_second?.median ?? Number.NaN

const confirmed = (rate: number): string[] => [
  `One \`serve\` confirms about ${about(rate)} instructions a second: the first tranches of ${about(rate * HOUR_SECONDS)} plans within ` +
    `an hour, or all ${TRANCHES_A_DAY} tranches a day of ${about((rate * DAY_SECONDS) / TRANCHES_A_DAY)} daily plans, if their confirmations came ` +
    'evenly through the day.',
]

const fired = (rate: number): string[] => [
  `A tick fires about ${about(rate)} tranches a second: when more than ${about(rate * MINUTE_SECONDS)} plans fire at once, it ` +
    'takes longer than the minute until the next one, which then finds it running and does nothing.',
]

/** From the difference between the sizes, so that what every file has does not count. */
function stored({ contestants }: Result, { figure, of }: { figure: Figure; of: string }): string[] {
  const sizes = contestants.flatMap(({ name, figures }) => {
    const mib = figures[figure]?.median
    return mib === undefined ? [] : [{ plans: Number(name.replace(/\D/g, '')), mib }]
  })
  const [least, most] = [sizes[0], sizes.at(-1)]
  if (!least || !most || most.plans === least.plans) return []
  const each = (most.mib - least.mib) / (most.plans - least.plans)
  return [
    `A plan that waits takes about ${about(each * 2 ** 20)} bytes of the ${of}, indexes included: a million of them ` +
      `${about((each * 1e6) / MIB_PER_GIB)} GiB.`,
  ]
}

if (import.meta.main) {
  const inRoot = (name: string): string => join(import.meta.dirname, '../..', name)
  const page = inRoot('docs/performance.md')
  const file = readReport(inRoot('fixtures/bench/report.json'))
  const postgres = readReport(inRoot('fixtures/bench/postgres.json'))
  writeFileSync(page, withFigures(readFileSync(page, 'utf8'), { file, postgres }))
  const growth = file.rows.find(({ name }) => name === 'growth')
  if (growth && !hasFailed(growth)) writeFileSync(inRoot('fixtures/bench/growth.svg'), drawGrowth(growth))
}
