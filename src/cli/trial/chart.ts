// The chart of a backtest: one self-contained SVG, three panels for each frequency, described for ECharts, which places
// axes, marks and words. Titles give the findings, and a description is read to those who listen to a chart. A few
// greys, two colours that also differ in lightness and a shape for each trigger: it can be read in print, and without
// colours.

import { type EChartsOption, format, init, setPlatformAPI } from 'echarts'
import { TRIGGERS, type Trigger } from '../../core/execution.ts'
import { counted, grouped } from '../../core/text.ts'
import { formatInstant, HOUR_MS, type Instant, utcDate } from '../../core/time.ts'
import { type Frequency, WINDOW_MS } from '../../core/window.ts'
import { type History, tranchesOf, type Windows } from '../../engine/backtest.ts'
import type { BacktestResult, Summary } from '../../engine/backtest-savings.ts'
import { markup, quantile, savingsOf } from '../../engine/backtest-savings.ts'
import { wrapped } from '../terminal.ts'
import { finding, findings, foundByStart, foundOfDca, hasFewBlocks } from './verdict.ts'

/** The part of a picture that a panel adds: at most one grid, and series on its first axes. */
export type Panel = Pick<EChartsOption, 'title' | 'grid' | 'xAxis' | 'yAxis' | 'legend' | 'series'>
type Run = { windows: Windows; result: BacktestResult }
type Place = { left: number; top: number }
type Point = [x: number, y: number | string]

export const [INK, QUIET, POLICY, PALE, TAIL] = ['#1f2933', '#5f6b76', '#12507b', '#a9c6dc', '#b4532a']
const FONTS = 'system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif'
export const SMALL = { color: QUIET, fontSize: 11, lineHeight: 16 }
const HEADING = { color: INK, fontSize: 13, fontWeight: 600 } as const
const NONE = { show: false }
const LABEL = { ...SMALL, hideOverlap: true }
const NAME = { nameLocation: 'middle', nameGap: 26, nameTextStyle: SMALL }
const AXIS = { ...NAME, axisLine: NONE, axisTick: NONE, axisLabel: LABEL }
/** Styles of a legend: lines alone, and small boxes. */
const [LINES, BOXES] = [{ itemStyle: { opacity: 0 } }, { itemWidth: 12, itemGap: 4 }]
const RULES = { showMinLine: false, showMaxLine: false, lineStyle: { color: '#d5dae0' } }
const LOOK = {
  backgroundColor: '#ffffff',
  textStyle: { fontFamily: FONTS },
  title: { padding: 0, itemGap: 5, textStyle: HEADING, subtextStyle: SMALL },
  grid: { outerBoundsMode: 'none' },
  legend: { padding: 0, itemGap: 20, itemHeight: 10, itemWidth: 24, textStyle: SMALL, selectedMode: false },
  valueAxis: { ...AXIS, splitLine: RULES },
  categoryAxis: { ...AXIS, axisLabel: { color: INK, fontSize: 12 } },
  timeAxis: { ...AXIS, axisTick: { show: true, lineStyle: { color: QUIET } }, splitLine: NONE },
  line: { symbol: 'none', silent: true, clip: false, sampling: 'minmax' },
  scatter: { silent: true, clip: false, z: 4, itemStyle: { opacity: 1 } },
  bar: { silent: true, barGap: '-100%' },
}

// There is no canvas to measure words on. A letter of the widest of these fonts takes 0.55 of its size on average.
const sizeOf = (font = ''): number => Number(/([\d.]+)px/.exec(font)?.[1] ?? 12)
setPlatformAPI({ measureText: (text, font) => ({ width: 0.55 * sizeOf(font) * text.length }) })

type Picture = { width: number; height: number; title: string; description: string }

/** Panels in one SVG, which fetches nothing, runs nothing and can be read out. The same panels give the same bytes. */
export function drawPanels(panels: readonly Panel[], { width, height, title, description }: Picture): string {
  const chart = init(null, LOOK, { renderer: 'svg', ssr: true, width, height })
  const option: Record<string, object[]> = {}
  for (const [i, panel] of panels.entries()) {
    // ECharts finds the grid and the axes of a part by their ids.
    const ids = { gridId: `grid ${i} 0`, xAxisId: `xAxis ${i} 0`, yAxisId: `yAxis ${i} 0` }
    for (const [key, parts] of Object.entries(panel)) {
      const named = [parts].flat().map((part, j) => ({ id: `${key} ${i} ${j}`, ...ids, ...part }))
      option[key] = [...(option[key] ?? []), ...named]
    }
  }
  chart.setOption({ animation: false, useUTC: true, ...option })
  const svg = chart.renderToSVGString().replaceAll(FOR_PAGES, '').replaceAll(`font-family:${FONTS};`, '')
  chart.dispose()
  const head = `<svg role="img" aria-labelledby="chart-title chart-desc" style="font-family:${FONTS}"`
  const [heard, told] = [title, description].map(format.encodeHTML)
  const spoken = `<title id="chart-title">${heard}</title>\n<desc id="chart-desc">${told}</desc>`
  return `${svg.replace(/^<svg([^>]*>)/, (_, rest) => `${head}${rest}\n${spoken}`)}\n`
}

/** Parts needed only by a page that moves a mouse over a chart; their names count the charts of a process. */
const FOR_PAGES =
  /<style[\s\S]*?<\/style>|<clipPath[\s\S]*?<\/clipPath>| (?:class|clip-path|pointer-events|ecmeta_\w+)="[^"]*"/g

/** The page; and a run, which has its means above, and two panels with their plots and legends side by side below. */
const PX = { width: 960, margin: 36, head: 112, line: 26, foot: 60 }
const RUN_PX = { height: 576, lower: 216, right: 464, plot: 86, legend: 300 }
/** About as many characters of the largest size as fit between the margins. */
const TITLE_CHARACTERS = 76

export function drawBacktest(runs: readonly Run[], history: History): string {
  const results = runs.map(({ result }) => result)
  const titles = wrapped(findings(results), TITLE_CHARACTERS)
  const panels = [headOf(titles, results, history)]
  let top = PX.head + titles.length * PX.line
  for (const run of runs) {
    panels.push(...panelsOf(run, history, top))
    top += RUN_PX.height + rowsPx(run.result)
  }
  panels.push({ title: { left: PX.margin, top, subtext: CAUTION } })
  const spoken = { title: findings(results), description: inWords(results) }
  return drawPanels(panels, { width: PX.width, height: top + PX.foot, ...spoken })
}

const CAUTION = `\
Intervals are drawn from whole calendar blocks, because windows overlap. What a fixed schedule with the same average spending would have
saved is drift of the market, not timing. A win rate says nothing without the mean and the worst cases. Past prices promise no later ones.`

/** The chart in words, for those who listen to it. */
function inWords(results: readonly BacktestResult[]): string {
  const said = (way: Way): string => {
    const [mean, wins, p5, worst] = figuresOf(way)
    return `${way.name}: mean ${mean}, 5th percentile ${p5}, worst ${worst}, ${wins} of windows above zero`
  }
  const sentences = (result: BacktestResult): string =>
    `${finding(result)}. ${foundByStart(result)} Savings in basis points: ${waysOf(result).map(said).join('; ')}.`
  return [foundOfDca(results), ...results.map(sentences), CAUTION.replace('\n', ' ')].join(' ')
}

const NAME_MAX = 60

/** Without its folders, because charts are passed on, and without characters that XML cannot express. */
function fileName(file: string): string {
  const name = (file.split(/[\\/]/).at(-1) ?? file).toWellFormed().replace(/[\p{Cc}\ufffe\uffff]/gu, '\uFFFD')
  return name.length > NAME_MAX ? `${name.slice(0, NAME_MAX)}\u2026` : name
}

function headOf(titles: readonly string[], results: readonly BacktestResult[], { at }: History): Panel {
  const { file, fee_bps, spread_bps } = results[0] ?? { file: '', fee_bps: 0, spread_bps: 0 }
  const [first, last] = [at[0], at.at(-1)].map((time) => utcDate((time ?? 0) as Instant))
  const costs = `a fee of ${fee_bps} bp and half a spread of ${spread_bps} bp; the average price has neither.`
  const subtext = [
    foundOfDca(results),
    `${fileName(file)}: ${grouped(at.length)} prices, ${first} to ${last} (UTC), one tick at each`,
    'The average price (TWAP) is that of a purchase spread evenly over the same window. 1 bp is 0.01 %.',
    fee_bps + spread_bps === 0 ? 'No purchase pays a fee or a spread.' : `Every purchase pays ${costs}`,
  ].join('\n')
  const textStyle = { fontSize: 20, lineHeight: PX.line }
  const subtextStyle = { fontSize: 12, lineHeight: 18 }
  return { title: { left: PX.margin, top: 22, text: titles.join('\n'), textStyle, subtext, subtextStyle } }
}

const SPANS: Record<Frequency, string> = { daily: '24 hours', weekly: '7 days', 'bi-weekly': '14 days' }

function panelsOf(run: Run, history: History, top: number): Panel[] {
  const { frequency, windows, starts, first_start, last_end } = run.result
  const begun = `one begun every ${counted(starts.every_minutes, 'minute')}`
  const period = `${first_start.slice(0, 10)} to ${last_end.slice(0, 10)}`
  const subtext = `${grouped(windows)} overlapping windows of ${SPANS[frequency]}, ${begun}, ${period}`
  const lower = top + RUN_PX.lower + rowsPx(run.result)
  return [
    {
      title: {
        left: PX.margin,
        top: top + 16,
        text: finding(run.result),
        textStyle: { fontSize: 16 },
        subtext,
      },
    },
    meansOf(run.result, { left: PX.margin, top: top + 70 }),
    spreadOf(run, { left: PX.margin, top: lower }),
    windowOf(run, history, { left: RUN_PX.right, top: lower }),
  ]
}

/** With a minus sign, not a hyphen, and no negative zero. */
function signed(value: number, places: number): string {
  const shown = value.toFixed(places)
  if (Number(shown) === 0) return (0).toFixed(places)
  return value > 0 ? `+${shown}` : shown.replace('-', '\u2212')
}

// The cost of each way of buying against the time-weighted average price, as mean and interval, with the win rate and
// the tails in words beside it: a win rate alone would promise more than the mean delivers.

type Way = { name: string; summary: Summary; isScaled: boolean }

/** A lump varies ten times as much: on the axis, its interval would squeeze all others into one point. */
function waysOf({ baselines: { clock, dca, lump }, frequency, ...policy }: BacktestResult): Way[] {
  const way = (name: string, summary: Summary, isScaled = true): Way => ({ name, summary, isScaled })
  const ways = [way('with live prices', policy), way('by the clock, no prices', clock)]
  // One purchase a day is the only one of a daily window.
  if (frequency === 'daily') return [...ways, way('plain DCA, lump at start', dca)]
  return [...ways, way('plain DCA, once a day', dca), way('lump at the start', lump, false)]
}

const rowsPx = (result: BacktestResult): number => 24 * (waysOf(result).length + 2)
const [BY_START, DRIFT] = ['the same, by start of plan', 'of which market drift']
const [MEAN, ALONE] = ['mean and 95 % interval', 'mean alone']
const MEANS = 'means of the plans that begin at each moment'
const POSTS = 'path://M0,0 H1 V4 H23 V0 H24 V10 H23 V6 H1 V10 H0 Z'
const column = (width: number) => ({ width, align: 'right' as const })
const COLUMNS = { mean: column(150), wins: column(56), p5: column(62), worst: column(66) }
const columns = ([mean, wins = '', p5 = '', worst = '']: string[]): string =>
  `{mean|${mean}}{wins|${wins}}{p5|${p5}}{worst|${worst}}`

function meansOf(result: BacktestResult, { left, top }: Place): Panel {
  const { starts, drift_bp, baselines, blocks, block_days } = result
  const ways = waysOf(result)
  const range = [starts.lowest_mean_bp, starts.highest_mean_bp]
  const ends = ways.flatMap(({ summary, isScaled }) => (isScaled ? summary.mean_bp_ci95 : summary.mean_bp))
  const [low, high] = [Math.min(0, ...range, ...ends), Math.max(0, ...range, ...ends)]
  const margin = 0.1 * (high - low)
  const points = ways.flatMap((way) => intervalOf(way, [low - margin, high + margin]))
  const compared = `plain DCA: ${signed(baselines.dca.mean_bp, 2)} bp, with live prices: ${signed(result.mean_bp, 2)} bp`
  const basis = `intervals by drawing from ${counted(blocks, 'calendar block')} of ${block_days} days`
  const subtext = `${compared}; ${basis}${hasFewBlocks(result) ? ': too few to lean on' : ''}`
  const text = 'Mean saving against the average price of the same window, beside other ways of buying'
  const [policy = [], ...others] = ways.map(figuresOf)
  const figures = [policy, [range.map(short).join(' to ')], [signed(drift_bp, 2)], ...others].map(columns)
  const names = ways.map((way) => way.name).toSpliced(1, 0, BY_START, DRIFT)
  const grid = { left: left + 190, top: top + 62, width: 316, height: rowsPx(result) }
  const rows = { type: 'category', inverse: true } as const
  const dot = { symbol: 'circle', symbolSize: 10, color: POLICY, lineStyle: { width: 3 } }
  const posts = { symbol: 'rect', symbolSize: [1.5, 10], color: QUIET, lineStyle: { width: 1.5 } }
  const ring = { symbolSize: 9, itemStyle: { color: '#ffffff', borderColor: QUIET, borderWidth: 1.5 } }
  const name = 'saving in basis points; right of zero is cheaper than the average'
  const rich = { fontWeight: 'normal', rich: COLUMNS } as const
  const words = columns(['mean [95 %], bp', 'wins', 'p5, bp', 'worst, bp'])
  const heads = { left: left + 552, top: top + 46, text: words, textStyle: { ...SMALL, ...rich } }
  return {
    title: [{ left, top, text, subtext }, heads],
    grid,
    xAxis: { type: 'value', name, minInterval: 0.01, axisLabel: { formatter: round } },
    yAxis: [
      { ...rows, data: names, axisLine: { show: true }, axisLabel: { margin: 190, align: 'left' } },
      { ...rows, data: figures, position: 'right', axisLabel: { ...rich, margin: 46 } },
    ],
    legend: { left, top: grid.top + grid.height + 46, data: [MEAN, { name: MEANS, icon: POSTS }, ALONE] },
    series: [
      { type: 'line', name: MEAN, data: points, ...dot },
      { type: 'line', name: MEANS, data: range.map((end) => [end, BY_START]), ...posts },
      { type: 'scatter', name: ALONE, data: [[drift_bp, DRIFT]], ...ring },
    ],
  }
}

const round = (value: number): string => signed(value, 4).replace(/\.?0+$/, '') || '0'

/** From one end over the mean to the other, then a gap. An end beyond the axis is an arrow at its edge. */
function intervalOf({ name, summary }: Way, [least, most]: [number, number]) {
  const [low, high] = summary.mean_bp_ci95
  const end = (x: number, symbol: string, symbolRotate = 0) => ({ value: [x, name], symbol, symbolRotate })
  const from = low < least ? end(least, 'triangle', 90) : end(low, 'none')
  const to = high > most ? end(most, 'triangle', -90) : end(high, 'none')
  return [from, end(summary.mean_bp, 'circle'), to, end(Number.NaN, 'none')]
}

/** Two decimals where they show on which side of zero a value lies, none where nobody reads them. */
const short = (value: number): string =>
  signed(value, Math.abs(value) < 10 ? 2 : Math.abs(value) < 1_000 ? 1 : 0)

function figuresOf({ summary: { mean_bp, mean_bp_ci95, win_rate, p5_bp, worst_bp } }: Way): string[] {
  const mean = `${signed(mean_bp, 2)} [${mean_bp_ci95.map(short).join(', ')}]`
  return [mean, `${(100 * win_rate).toFixed(1)} %`, signed(p5_bp, 0), signed(worst_bp, 0)]
}

// The distribution of the savings of single windows. The middle 98 % are drawn, and the rest is counted.

const BINS = 44
const WORST = 'the worst twentieth of the windows'

function spreadOf({ windows, result }: Run, { left, top }: Place): Panel {
  const { mean_bp, p5_bp } = result
  const savings = savingsOf(windows, windows.cost, result)
  const [p1, p99] = [quantile(savings, 0.01), quantile(savings, 0.99)]
  const margin = p99 - p1 < 0.01 ? 1 : 0
  const [low, high] = [Math.min(p1, 0) - margin, Math.max(p99, 0) + margin]
  const step = (high - low) / BINS
  const shares = new Array<number>(BINS).fill(0)
  for (const value of savings.filter((each) => low <= each && each <= high)) {
    const bin = Math.min(BINS - 1, Math.floor((value - low) / step))
    shares[bin] = (shares[bin] ?? 0) + 100 / savings.length
  }
  const bins = shares.map((share, i): [number, number] => [low + (i + 0.5) * step, share])
  const isTail = ([middle]: [number, number]): boolean => middle + step / 2 <= p5_bp
  const grid = { left: left + 40, top: top + RUN_PX.plot, width: 340, height: 166 }
  const bar = { type: 'bar', barWidth: grid.width / BINS - 1 } as const
  const upright = (name: string, x: number, lineStyle: object) =>
    stroke(name, lineStyle, [x, 0], [x, Math.max(...shares)])
  const lines = [
    upright(`mean ${signed(mean_bp, 2)} bp`, mean_bp, { color: POLICY, width: 2 }),
    upright(`5th percentile ${signed(p5_bp, 1)} bp`, p5_bp, { color: TAIL, width: 1.5, type: 'dashed' }),
    upright('no saving', 0, { color: INK, width: 1, type: 'dotted' }),
  ]
  const below = `${grouped(savings.filter((value) => value < low).length)} down to ${short(quantile(savings, 0))} bp`
  const above = `${grouped(savings.filter((value) => value > high).length)} up to ${short(quantile(savings, 1))} bp`
  const drawn = `a bar is ${step.toFixed(1)} bp wide; the middle 98 % of the windows are drawn`
  const subtext = `${drawn}\noutside: ${below}, ${above}\nshare of windows`
  const full = Math.max(...shares) > 75 ? { max: 100, interval: 25 } : {}
  const inside = { min: low, max: high, splitLine: NONE }
  const axisLabel = { formatter: round, showMinLabel: false, showMaxLabel: false }
  const name = 'saving of a window in basis points'
  return {
    title: { left, top, text: 'How the saving spreads over single windows', subtext },
    grid,
    xAxis: { type: 'value', name, ...inside, axisLabel },
    yAxis: { type: 'value', splitNumber: 4, ...full, axisLabel: { formatter: '{value} %' } },
    legend: [
      { left, top: top + RUN_PX.legend, ...LINES, data: lines.map((each) => each.name) },
      { left, top: top + RUN_PX.legend + 18, ...BOXES, data: [WORST] },
    ],
    series: [
      { ...bar, name: WORST, data: bins.filter(isTail), color: TAIL },
      { ...bar, data: bins.filter((each) => !isTail(each)), color: PALE },
      ...lines,
    ],
  }
}

const stroke = (name: string, lineStyle: object, ...data: Point[]) =>
  ({ name, type: 'line', data, lineStyle }) satisfies Panel['series']

// A window as it was played, with the price, the slots, every tranche where it fired and why, and the two averages. It
// is the window with the median saving, so that it is not hand-picked.

/** The first window whose saving is the median of all. */
export function medianWindow(savings: Float64Array): number {
  const found = savings.indexOf(quantile(savings, 0.5))
  if (found < 0) throw new RangeError('no window to draw')
  return found
}

function windowOf({ windows, result }: Run, history: History, { left, top }: Place): Panel {
  const savings = savingsOf(windows, windows.cost, result)
  const i = medianWindow(savings)
  const [start = 0, firstBar = 0, endBar = 0] = [windows.start[i], windows.firstBar[i], windows.endBar[i]]
  const end = start + WINDOW_MS[result.frequency]
  const { slots } = windows.layout
  const slotMs = (end - start) / slots
  const pointAt = (bar: number): Point => [history.at[bar] ?? 0, history.value[bar] ?? 0]
  const prices = Array.from({ length: endBar - firstBar }, (_, bar) => pointAt(firstBar + bar))
  const edges = Array.from({ length: slots }, (_, slot) => start + slot * slotMs)
  const greys = edges.filter((_, slot) => slot % 2 === 0)
  const bands = greys.map((from): [object, object] => [{ xAxis: from }, { xAxis: from + slotMs }])
  const level = (name: string, value: number, lineStyle: object) =>
    stroke(`${name} ${dollars(value)}`, lineStyle, [start, value], [end, value])
  const markArea = { silent: true, itemStyle: { color: '#eef1f4' }, data: bands }
  const price = { ...stroke('price', { color: QUIET, width: 1 }, ...prices), markArea }
  const levels = [
    level('average', windows.twap[i] ?? 0, { color: INK, width: 1.5, type: 'dashed' }),
    level('paid', markup(result) * (windows.cost[i] ?? 0), { color: POLICY, width: 1.5 }),
  ]
  const fires = tranchesOf(history, windows, i)
  const marks = TRIGGERS.flatMap((trigger) => {
    const data = fires.filter((fire) => fire.trigger === trigger).map(({ bar }) => pointAt(bar))
    const [why, symbol, color, symbolSize] = MARKS[trigger]
    const name = `${trigger === 'catch_up' ? 'catch-up' : trigger.replace('_', ' ')}, ${data.length}: ${why}`
    return data.length === 0 ? [] : [{ type: 'scatter' as const, name, data, symbol, symbolSize, color }]
  })
  const minInterval = (windows.twap[i] ?? 0) < 1_000 ? 0.01 : 1
  const isDay = result.frequency === 'daily'
  const begun = formatInstant(start as Instant).replace('T', ' ')
  const said = `from ${begun.slice(0, 16)} UTC on: ${counted(fires.length, 'tranche')}, saving ${signed(savings[i] ?? 0, 1)} bp`
  const grounds = `grey and white in turn: ${counted(slots, 'slot')} of ${Number((slotMs / HOUR_MS).toFixed(1))} hours`
  const text = 'How a window is bought: the one with the median saving'
  const grid = { left: left + 58, top: top + RUN_PX.plot, right: PX.margin, height: 166 }
  const name = isDay ? 'hour, UTC' : 'month and day, UTC'
  const axisLabel = { alignMaxLabel: 'right', formatter: isDay ? '{HH}:{mm}' : '{MM}-{dd}' } as const
  const columns = { orient: 'vertical', height: 18 * Math.ceil(marks.length / 2) } as const
  return {
    title: { left, top, text, subtext: `${said}\n${grounds}\nUSD per BTC` },
    grid,
    xAxis: { type: 'time', min: start, max: end, name, axisLabel },
    yAxis: { type: 'value', scale: true, splitNumber: 4, minInterval, axisLabel: { formatter: dollars } },
    legend: [
      { left: left + 110, top: top + 58, ...LINES, data: ['price', ...levels.map((each) => each.name)] },
      { left, top: top + RUN_PX.legend, ...columns, ...BOXES, data: marks.map((mark) => mark.name) },
    ],
    series: [price, ...levels, ...marks],
  }
}

/** To the cent where the price is small enough for cents to matter. */
const dollars = (value: number): string => grouped(value.toFixed(value < 1_000 ? 2 : 0))

/** The meaning of a tranche's mark, and its look. */
const MARKS: Record<Trigger, [why: string, symbol: string, colour: string, size: number]> = {
  slot_start: ['a slot began', 'circle', POLICY, 8],
  limit: ['the price fell to its limit', 'path://M0,0H10L5,9Z', '#2f8f5b', 9],
  deadline: ['its slot ended', 'rect', TAIL, 8],
  catch_up: ['slots had passed unseen', 'diamond', '#7a4f9a', 11],
  failsafe: [
    'the window was ending',
    'path://M0,1 1,0 4,3 7,0 8,1 5,4 8,7 7,8 4,5 1,8 0,7 3,4Z',
    '#111111',
    10,
  ],
  clock: ['its time had come', 'path://M3,0H5V3H8V5H5V8H3V5H0V3H3Z', QUIET, 10],
}
