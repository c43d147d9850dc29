// Panel 3: one window as it was played: the price, the slots, every tranche where it fired and why, and the two
// averages. It is the window with the median saving, so that it is not hand-picked.

import { counted } from '../../core/counted.ts'
import { TRIGGERS, type Trigger } from '../../core/execution.ts'
import { DAY_MS, formatInstant, HOUR_MS, type Instant } from '../../core/instant.ts'
import type { History } from '../../engine/backtest/bars.ts'
import type { WindowResult } from '../../engine/backtest/replay-windows.ts'
import { saving } from '../../engine/backtest/savings-report.ts'
import { quantile } from '../../engine/backtest/statistics.ts'
import { TRIGGER_NAME } from '../shared/trigger-name.ts'
import { CENTRED, INK, mark, POLICY, QUIET, RIGHT, RULE, SMALL, signed, TITLE } from './style.ts'
import { type Box, element, group, line, type Scale, scale, text, ticks } from './svg.ts'

const HEAD_PX = 66
const FOOT_PX = 70
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

export function drawExample(window: WindowResult, history: History, box: Box): string {
  const of = visible(window, history)
  const left = box.left + PRICES_PX
  const right = box.left + box.width
  const top = box.top + HEAD_PX
  const bottom = box.top + box.height - FOOT_PX
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
