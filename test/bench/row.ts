// A row of the bench: something of ours that is measured, and the contestants it is compared with in the same run; the
// figures of its rounds are reduced to numbers and to words.

import type { Backend, StoreName } from './backend.ts'

/** Each figure with its unit, and how many decimals a small one has. */
export const FIGURES = {
  per_second: { unit: '/s', places: 0 },
  ms: { unit: ' ms', places: 2 },
  /** Processor time of the measured process, for each request or item. */
  cpu_us: { unit: ' µs CPU', places: 1 },
  /** Processor time of all processes of the database server, for each request or item. */
  server_us: { unit: ' µs CPU of PostgreSQL', places: 1 },
  resident_mib: { unit: ' MiB', places: 0 },
} as const
export type Figure = keyof typeof FIGURES

/** The figures of one turn of a contestant, each in its unit. A figure that a system cannot report is left out. */
export type Figures = Partial<Record<Figure, number>>

/** A single turn. Contestants take theirs one after the other, round by round. */
export type Take = (round: number) => Promise<Figures>

/** The place of a row: everything it starts and makes is gone when it has been measured. */
export type Stage = {
  /** On a disk, because most of the measured work waits for one. */
  folder: string
  after: (end: () => unknown) => void
}

export type Scale = {
  rounds: number
  /** The store of the databases. */
  on: Backend
  /** With `--quick`, less of everything. */
  pick: <T>(sizes: { quick: T; full: T }) => T
}

export type Row = {
  name: string
  /** The subject of the measurement, in a line. */
  what: string
  /** The figure shown first. */
  main: Figure
  ratios: Ratio[]
  /** The only store that this row is measured on. */
  store?: StoreName
  /** For rows whose turns take minutes. */
  roundsMax?: number
  /** Prepares the contestants, ours first. Throws when that is impossible. */
  prepare: (stage: Stage, scale: Scale) => Promise<{ on: string; contestants: Record<string, Take> }>
}

// The ratios of ours to the contestants beside it. Ratios of processor times or memory are steady: other work on the
// machine changes them little, so that they can have limits.

/** A figure of a contestant in a round; NaN where there is none. */
export type Seen = (contestant: string, figure: Figure) => number

export type Ratio = { name: string; better: 'more' | 'less'; isSteady: boolean; of: (seen: Seen) => number }

/** Our rate to that of another; of several, to their combined rate when each item passes through all of them. */
export const rateTo = (name: string, ...others: readonly string[]): Ratio => ({
  name: `rate to ${name}`,
  better: 'more',
  isSteady: false,
  of: (seen) =>
    seen('ours', 'per_second') * others.reduce((sum, other) => sum + 1 / seen(other, 'per_second'), 0),
})

/** The processor time of another, or the sum of several, to ours. */
export const cpuOf = (name: string, ...others: readonly string[]): Ratio => ({
  name: `CPU of ${name} to ours`,
  better: 'more',
  isSteady: true,
  of: (seen) =>
    others.reduce((sum, other) => sum + costOf(seen, other, 'cpu_us'), 0) / costOf(seen, 'ours', 'cpu_us'),
})

/** A figure of one contestant as a multiple of that of another. */
export const multiple = (name: string, figure: Figure, [one, other]: readonly [string, string]): Ratio => ({
  name,
  better: 'less',
  isSteady: figure === 'cpu_us' || figure === 'resident_mib',
  of: (seen) => costOf(seen, one, figure) / costOf(seen, other, figure),
})

/** The processor time of the database server counts too, since it works for its client. */
const costOf = (seen: Seen, who: string, figure: Figure): number =>
  seen(who, figure) + (figure === 'cpu_us' ? seen(who, 'server_us') || 0 : 0)

// The figures of several rounds, combined.

/** The median of several rounds, and the range. */
export type Spread = { median: number; least: number; most: number }

/** Null when a round lacks the figure. */
export function spreadOf(values: readonly number[]): Spread | null {
  if (values.length === 0 || !values.every(Number.isFinite)) return null
  return { median: percentile(values, 0.5), least: Math.min(...values), most: Math.max(...values) }
}

/** The smallest value that more than this share of the values does not exceed; NaN for an empty list. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** The figures without those that are NaN. */
export const known = (figures: Figures): Figures =>
  Object.fromEntries(Object.entries(figures).filter(([, value]) => Number.isFinite(value)))

// The result of a row, in numbers and in words.

export type Result = {
  row: Pick<Row, 'name' | 'what' | 'main'>
  on: string
  contestants: { name: string; figures: Partial<Record<Figure, Spread>> }[]
  ratios: (Omit<Ratio, 'of'> & { spread: Spread | null })[]
}

/** A count with its thousands separated. */
export const counted = (value: number): string => value.toLocaleString('en-US')

function number(value: number, places: number): string {
  if (places > 0 && value > 0 && value < 1) return value.toPrecision(2)
  const digits = Math.abs(value) >= 100 ? 0 : places
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

/** The median, and the range where the values differ. */
function inWords(
  { median, least, most }: Spread,
  { places, unit }: { places: number; unit: string },
): string {
  const range = least === most ? '' : ` (${number(least, places)} to ${number(most, places)})`
  return number(median, places) + unit + range
}

const RATIO = { places: 2, unit: '' }
const NAME_WIDTH = 28

/** A line for each contestant, and one for each ratio, with the limit of those that have one. */
export function inLines(
  { row, on, contestants, ratios }: Result,
  limitOf: (ratio: string) => string,
): string {
  const lines = contestants.map(({ name, figures }) => {
    const others = (Object.keys(FIGURES) as Figure[]).filter((figure) => figure !== row.main)
    const said = [row.main, ...others].flatMap((figure) => {
      const spread = figures[figure]
      return spread ? [inWords(spread, FIGURES[figure])] : []
    })
    return `  ${name.padEnd(NAME_WIDTH)}${said.join(', ')}`
  })
  const measured = ratios.map(
    ({ name, spread }) => `  ${name}: ${spread ? inWords(spread, RATIO) : 'not measured'}${limitOf(name)}`,
  )
  return [`${row.name}: ${row.what}, on ${on}`, ...lines, ...measured, ''].join('\n')
}
