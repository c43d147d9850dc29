// How the chart of a backtest looks and is written: elements of SVG with escaped text, scales with round ticks,
// colours, sizes, and a mark for each trigger.

import type { Trigger } from '../../core/execution.ts'
import { assert } from '../../core/problem.ts'

export type Box = { left: number; top: number; width: number; height: number }
export type Scale = (value: number) => number
type Attributes = Record<string, string | number>

/** One element; children are SVG already. */
export function element(name: string, attributes: Attributes, ...children: string[]): string {
  const written = Object.entries(attributes)
    .map(([key, value]) => ` ${key}="${typeof value === 'number' ? coordinate(value) : escaped(value)}"`)
    .join('')
  return children.length === 0 ? `<${name}${written}/>` : `<${name}${written}>${children.join('')}</${name}>`
}

/** A group of drawings under one set of attributes, one a line so that a difference can be read. */
export const group = (attributes: Attributes, ...children: string[]): string =>
  element('g', attributes, '\n', children.join('\n'), '\n')

export const line = (x1: number, y1: number, x2: number, y2: number, attributes: Attributes): string =>
  element('line', { x1, y1, x2, y2, ...attributes })

/** Text at its baseline. Whatever it holds is escaped here and nowhere else. */
export const text = (x: number, y: number, content: string, attributes: Attributes = {}): string =>
  element('text', { x, y, ...attributes }, escaped(content))

/** What is read out instead of the drawing: its title or its description. */
export const spoken = (name: 'title' | 'desc', id: string, content: string): string =>
  element(name, { id }, escaped(content))

/** Hundredths of a pixel are more than an eye or a printer can tell. A coordinate that is not a number is a bug. */
function coordinate(value: number): string {
  assert(Number.isFinite(value), 'every coordinate of a drawing is a number')
  return String(Math.round(value * 100) / 100)
}

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** Characters that XML has no way to write become the mark of a character that is missing. */
const escaped = (raw: string): string =>
  Array.from(raw.toWellFormed(), (one) => (isWritable(one) ? (ESCAPES[one] ?? one) : '\uFFFD')).join('')

function isWritable(one: string): boolean {
  const code = one.codePointAt(0) ?? 0
  return (code >= 0x20 && code !== 0xfffe && code !== 0xffff) || one === '\t' || one === '\n' || one === '\r'
}

/** Maps `from` onto `to`. A range of no width is put in the middle. */
export function scale(
  [low, high]: readonly [number, number],
  [start, end]: readonly [number, number],
): Scale {
  const width = high - low
  return (value) => (width === 0 ? (start + end) / 2 : start + ((value - low) / width) * (end - start))
}

const STEPS = [1, 2, 5, 10]

/** Round values within a range, at most `most` of them. */
export function ticks([low, high]: readonly [number, number], most: number): number[] {
  const rough = (high - low) / most
  if (!(rough > 0)) return [low]
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = power * (STEPS.find((one) => one * power >= rough) ?? 10)
  const first = Math.ceil(low / step)
  const last = Math.floor(high / step)
  // By whole multiples: adding up steps would print 0.30000000000000004.
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)))
}

// How the chart looks: a few greys, two colours that also differ in lightness, and a separate shape for each trigger,
// so that it can be read in print and without seeing colours.

export const INK = '#1f2933'
export const QUIET = '#5f6b76'
export const RULE = '#d5dae0'
export const POLICY = '#12507b'
export const PALE = '#a9c6dc'
export const TAIL = '#b4532a'
export const PRICE_LINE = QUIET
/** The ground of every second slot. */
export const BAND = '#eef1f4'

export const FONT = 'font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif'
export const TITLE: Attributes = { 'font-size': 13, 'font-weight': 600, fill: INK }
export const SMALL: Attributes = { 'font-size': 11, fill: QUIET }
export const CENTRED: Attributes = { ...SMALL, 'text-anchor': 'middle' }
/** Keeps the lines behind a text from crossing it. */
export const RIM: Attributes = { 'paint-order': 'stroke', stroke: '#ffffff', 'stroke-width': 3 }
export const RIGHT: Attributes = { ...SMALL, 'text-anchor': 'end' }

/** What the two lower panels have above and below their plots, which are of one height. */
export const PANEL_HEAD_PX = 72
export const PANEL_FOOT_PX = 112

/** How far a mark reaches from its middle. */
export const MARK_PX = 6

const path = (d: string, fill: string): string =>
  element('path', { d, fill, stroke: '#ffffff', 'stroke-width': 0.8 })
const stroke = (d: string, colour: string): string =>
  element('path', { d, fill: 'none', stroke: colour, 'stroke-width': 2 })

/** Each drawn around 0,0 and moved into place. */
const MARKS: Record<Trigger, string> = {
  slot_start: element('circle', { r: 4, fill: POLICY, stroke: '#ffffff', 'stroke-width': 0.8 }),
  limit: path('M-5,-4 L5,-4 L0,5 Z', '#2f8f5b'),
  deadline: path('M-4,-4 H4 V4 H-4 Z', TAIL),
  catch_up: path('M0,-5.5 L5.5,0 L0,5.5 L-5.5,0 Z', '#7a4f9a'),
  failsafe: stroke('M-4,-4 L4,4 M-4,4 L4,-4', '#111111'),
  clock: stroke('M-5,0 H5 M0,-5 V5', QUIET),
}

export const mark = (trigger: Trigger, x: number, y: number): string =>
  element('g', { transform: `translate(${x.toFixed(2)},${y.toFixed(2)})` }, MARKS[trigger])

export const signed = (value: number, places: number): string => {
  const shown = value.toFixed(places)
  // A minus sign, not a hyphen; and no negative zero.
  if (Number(shown) === 0) return (0).toFixed(places)
  return value > 0 ? `+${shown}` : shown.replace('-', '\u2212')
}

export const count = (value: number): string => value.toLocaleString('en-US')

const PLACES_MAX = 4

/** Values of one axis, all with as many places as the finest of them needs. */
export function axisLabels(values: readonly number[]): string[] {
  let places = 0
  while (places < PLACES_MAX && values.some((value) => Number(value.toFixed(places)) !== value)) places += 1
  return values.map((value) => signed(value, places))
}
