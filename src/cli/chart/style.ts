// How the chart looks: a few greys, two colours that also differ in lightness, and a separate shape for each trigger,
// so that it can be read in print and without seeing colours.

import type { Trigger } from '../../core/execution.ts'
import { type Attributes, element } from './svg.ts'

export const INK = '#1f2933'
export const QUIET = '#5f6b76'
export const RULE = '#d5dae0'
export const POLICY = '#12507b'
export const PALE = '#a9c6dc'
export const TAIL = '#b4532a'

export const FONT = 'font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif'
export const TITLE: Attributes = { 'font-size': 13, 'font-weight': 600, fill: INK }
export const SMALL: Attributes = { 'font-size': 11, fill: QUIET }
export const CENTRED: Attributes = { ...SMALL, 'text-anchor': 'middle' }
export const RIGHT: Attributes = { ...SMALL, 'text-anchor': 'end' }

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
