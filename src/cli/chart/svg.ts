// A small SVG writer: elements with escaped text, linear scales, round ticks. Knows nothing of backtests.

import { assert } from '../../core/assert.ts'

export type Box = { left: number; top: number; width: number; height: number }
export type Scale = (value: number) => number
export type Attributes = Record<string, string | number>

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
