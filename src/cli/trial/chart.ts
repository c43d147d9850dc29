// The chart of a backtest: one self-contained SVG, three panels for each frequency. Titles say what was found, and a
// description says it to those who hear a chart.

import { TRIGGERS, type Trigger } from '../../core/execution.ts'
import { counted } from '../../core/text.ts'
import { DAY_MS, formatInstant, HOUR_MS, type Instant, utcDate } from '../../core/time.ts'
import { type Frequency, WINDOW_MS } from '../../core/window.ts'
import { type Fire, type History, tranchesOf, type Windows } from '../../engine/backtest.ts'
import {
  type BacktestReport,
  type Costs,
  markup,
  quantile,
  type Summary,
  savingsOf,
} from '../../engine/backtest-savings.ts'
import { TRIGGER_NAME } from '../purchases/execution.ts'
import { wrapped } from '../terminal.ts'
import { costHeight, drawCost, drawDistribution, isLump } from './chart-savings.ts'
import {
  BAND,
  type Box,
  CENTRED,
  count,
  element,
  FONT,
  group,
  INK,
  line,
  MARK_PX,
  mark,
  PANEL_FOOT_PX,
  PANEL_HEAD_PX,
  POLICY,
  PRICE_LINE,
  QUIET,
  RIGHT,
  RULE,
  type Scale,
  SMALL,
  scale,
  signed,
  spoken,
  TITLE,
  text,
  ticks,
} from './chart-style.ts'
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
    spoken('desc', 'backtest-text', reportsInWords(reports)),
    '\n',
    element('rect', { width: WIDTH_PX, height, fill: '#ffffff' }),
    head(titles, reports, history),
    ...runs.map((run, i) => drawRun(run, history, tops[i] ?? 0)),
    foot(height - FOOT_PX + 18),
  )}\n`
}

/** The chart for those who hear it. */
function reportsInWords(reports: readonly BacktestReport[]): string {
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

// The panel of a window: as it was played, with the price, the slots, every tranche where it fired and why, and the two
// averages. It is the window with the median saving, so that it is not hand-picked.

const PRICES_PX = 58
const TIME_STEPS_MS = [4, 6, 12, 24, 48, 96].map((hours) => hours * HOUR_MS)
const TIME_TICKS_MAX = 7
const LEGEND_COLUMN_PX = 222

/** The first window whose saving is the median of all. */
export function medianWindow(savings: Float64Array): number {
  const found = savings.indexOf(quantile(savings, 0.5))
  if (found < 0) throw new RangeError('no window to draw')
  return found
}

/** One window, and what is drawn of it. */
type Example = {
  start: Instant
  end: Instant
  slots: number
  saving: number
  twap: number
  paid: number
  fires: Fire[]
  points: Point[]
}
type Point = { at: number; value: number }
type Frame = { left: number; right: number; top: number; bottom: number; x: Scale; y: Scale }

function exampleOf({ windows, report }: Run, history: History): Example {
  const savings = savingsOf(windows, windows.cost, report)
  const i = medianWindow(savings)
  const start = (windows.start[i] ?? 0) as Instant
  const [firstBar, endBar] = [windows.firstBar[i] ?? 0, windows.endBar[i] ?? 0]
  const points = Array.from({ length: endBar - firstBar }, (_, bar) => ({
    at: history.at[firstBar + bar] ?? 0,
    value: history.value[firstBar + bar] ?? 0,
  }))
  return {
    start,
    end: (start + WINDOW_MS[windows.frequency]) as Instant,
    slots: windows.layout.slots,
    saving: savings[i] ?? 0,
    twap: windows.twap[i] ?? 0,
    paid: markup(report) * (windows.cost[i] ?? 0),
    fires: tranchesOf(history, windows, i).map((fire) => ({ ...fire, bar: fire.bar - firstBar })),
    points,
  }
}

function drawExample(run: Run, history: History, box: Box): string {
  const example = exampleOf(run, history)
  const left = box.left + PRICES_PX
  const right = box.left + box.width
  const top = box.top + PANEL_HEAD_PX
  const bottom = box.top + box.height - PANEL_FOOT_PX
  const values = [example.paid, ...example.points.map(({ value }) => value)]
  const [low, high] = [Math.min(...values), Math.max(...values)]
  // A mark at an end of the window, or at its lowest price, stays inside.
  const x = scale([example.start, example.end], [left + MARK_PX, right - MARK_PX])
  const y = scale([low, high], [bottom - MARK_PX, top + MARK_PX])
  const frame = { left, right, top, bottom, x, y }
  return group(
    {},
    text(box.left, box.top + 12, 'How a window is bought: the one with the median saving', TITLE),
    text(box.left, box.top + 28, exampleInWords(example), SMALL),
    ...averageNames(example, { left: box.left, y: box.top + 48 }),
    ...slotBands(example, frame),
    ...priceAxis([low, high], frame),
    ...timeAxis(example, frame),
    element('polyline', {
      points: path(example.points, frame),
      fill: 'none',
      stroke: PRICE_LINE,
      'stroke-width': 1,
    }),
    ...averages(example, frame),
    ...example.fires.map(({ bar, trigger }) => {
      const point = example.points[bar]
      return mark(trigger, x(point?.at ?? 0), y(point?.value ?? 0))
    }),
    ...legend(example, { left: box.left, top: bottom + 56 }),
  )
}

const moment = (at: Instant): string => formatInstant(at).slice(0, 16).replace('T', ' ')

/** To the cent where the price is small enough for cents to matter. */
const dollars = (value: number): string => {
  const places = value < 1_000 ? 2 : 0
  return value.toLocaleString('en-US', { minimumFractionDigits: places, maximumFractionDigits: places })
}

const exampleInWords = ({ start, fires, saving }: Example): string =>
  `from ${moment(start)} UTC on: ${counted(fires.length, 'tranche')}, saving ${signed(saving, 1)} bp`

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
function slotBands({ start, end, slots }: Example, { x, left, right, top, bottom }: Frame): string[] {
  const edge = (i: number): number => {
    if (i === 0) return left
    return i === slots ? right : x(start + ((end - start) * i) / slots)
  }
  return Array.from({ length: slots }, (_, i) =>
    element('rect', {
      x: edge(i),
      y: top,
      width: edge(i + 1) - edge(i),
      height: bottom - top,
      fill: i % 2 === 0 ? BAND : '#ffffff',
    }),
  )
}

const priceAxis = (range: [number, number], { left, right, y }: Frame): string[] => [
  ...ticks(range, 4).flatMap((value) => [
    line(left, y(value), right, y(value), { stroke: RULE }),
    text(left - 6, y(value) + 4, dollars(value), RIGHT),
  ]),
]

function timeAxis({ start, end }: Example, { x, left, right, bottom }: Frame): string[] {
  const step = TIME_STEPS_MS.find((ms) => (end - start) / ms <= TIME_TICKS_MAX) ?? 7 * DAY_MS
  const first = Math.ceil(start / step)
  const labels = Array.from({ length: Math.floor(end / step) - first + 1 }, (_, i) => {
    const at = (first + i) * step
    const written = formatInstant(at as Instant)
    const shown = step < DAY_MS ? written.slice(11, 16) : written.slice(5, 10)
    // A label at an edge is moved in.
    const middle = Math.min(Math.max(x(at), left + TIME_PX / 2), right - TIME_PX / 2)
    return group(
      {},
      line(x(at), bottom, x(at), bottom + 4, { stroke: QUIET }),
      text(middle, bottom + 16, shown, CENTRED),
    )
  })
  const unit = step < DAY_MS ? 'hour, UTC' : 'month and day, UTC'
  return [...labels, text((left + right) / 2, bottom + 34, unit, CENTRED)]
}

const TIME_PX = 32

const averages = ({ twap, paid }: Example, { left, right, y }: Frame): string[] => [
  line(left, y(paid), right, y(paid), AVERAGE_PAID),
  line(left, y(twap), right, y(twap), AVERAGE_PRICE),
]

const AVERAGE_PAID = { stroke: POLICY, 'stroke-width': 1.5 }
const AVERAGE_PRICE = { stroke: INK, 'stroke-dasharray': '6 4', 'stroke-width': 1.5 }

/** The two averages by name, above the panel: their lines are often less than a pixel apart. */
const averageNames = ({ twap, paid }: Example, { left, y }: { left: number; y: number }): string[] => [
  text(left, y + 12, 'USD per BTC', SMALL),
  line(left + 86, y, left + 110, y, { stroke: PRICE_LINE }),
  text(left + 116, y + 4, 'price', SMALL),
  line(left + 160, y, left + 184, y, AVERAGE_PRICE),
  text(left + 190, y + 4, `average ${dollars(twap)}`, { ...SMALL, fill: INK }),
  line(left + 310, y, left + 334, y, AVERAGE_PAID),
  text(left + 340, y + 4, `paid ${dollars(paid)}`, { ...SMALL, fill: POLICY }),
]

/** What each mark says of the tranche. */
const WHY: Record<Trigger, string> = {
  slot_start: 'a slot began',
  limit: 'the price fell to its limit',
  deadline: 'its slot ended',
  catch_up: 'slots had passed unseen',
  failsafe: 'the window was ending',
  clock: 'its time had come',
}

function legend(
  { fires, slots, start, end }: Example,
  { left, top }: { left: number; top: number },
): string[] {
  const used = TRIGGERS.filter((trigger) => fires.some((fire) => fire.trigger === trigger))
  const many = (trigger: Trigger): number => fires.filter((fire) => fire.trigger === trigger).length
  const hours = Number(((end - start) / slots / HOUR_MS).toFixed(1))
  const swatch = (x: number, fill: string): string =>
    element('rect', { x, y: top - 9, width: 10, height: 10, fill, stroke: RULE })
  return [
    swatch(left, BAND),
    swatch(left + 10, '#ffffff'),
    text(left + 28, top, `grey and white in turn: ${counted(slots, 'slot')} of ${hours} hours`, SMALL),
    ...used.map((trigger, i) => {
      const x = left + MARK_PX + (i % 2) * LEGEND_COLUMN_PX
      const y = top + 20 + Math.floor(i / 2) * 18
      return group(
        {},
        mark(trigger, x, y - 4),
        text(x + 12, y, `${TRIGGER_NAME[trigger]}, ${many(trigger)}: ${WHY[trigger]}`, SMALL),
      )
    }),
  ]
}
