// How the account looks: colours where they are wanted, numbers and dates as people read them, lines that fit.

import { styleText } from 'node:util'
import type { Streams } from '../context.ts'

export type Style = 'bold' | 'dim' | 'green' | 'yellow' | 'red' | 'blue' | 'cyan'
export type Paint = (style: Style, text: string) => string

const LINE_MAX = 79

/** Colours only on a terminal, and never against NO_COLOR or --no-color. */
export function createPaint(out: Streams['out'], wanted: boolean): Paint {
  if (!wanted || !out.isTTY) return (_, text) => text
  return (style, text) => styleText(style, text, { stream: out })
}

/** 1234567.89 as 1,234,567.89. */
export function grouped(decimal: string | number): string {
  const [whole = '', fraction] = String(decimal).split('.')
  const marked = whole.replace(/\B(?=(\d{3})+$)/g, ',')
  return fraction === undefined ? marked : `${marked}.${fraction}`
}

/** A number and its noun. */
export const counted = (count: number, noun: string, plural = `${noun}s`): string =>
  `${grouped(count)} ${count === 1 ? noun : plural}`

const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const utcDay = (instant: string, daysOn: number): Temporal.ZonedDateTime =>
  Temporal.Instant.from(instant).toZonedDateTimeISO('UTC').add({ days: daysOn })

export const weekday = (instant: string, daysOn = 0): string =>
  WEEKDAYS[utcDay(instant, daysOn).dayOfWeek - 1] ?? ''

export function shortDate(instant: string, daysOn = 0): string {
  const { day, month } = utcDay(instant, daysOn)
  return `${day} ${MONTHS[month - 1]}`
}

export const dayOfMonth = (instant: string, daysOn = 0): number => utcDay(instant, daysOn).day

/** Breaks a paragraph into lines of at most 79 columns; it must hold no colours. */
export function wrapped(text: string, indent = ''): string {
  const lines: string[] = []
  let line = indent
  for (const word of text.split(' ')) {
    const longer = line === indent ? line + word : `${line} ${word}`
    if (longer.length > LINE_MAX && line !== indent) {
      lines.push(line)
      line = indent + word
    } else line = longer
  }
  return [...lines, line].join('\n')
}
