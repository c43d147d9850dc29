// The ratios that several rows have: ours to what is measured beside it.

import { readFileSync, writeFileSync } from 'node:fs'
import { z } from 'zod'
import type { Report } from './report.ts'
import { hasFailed, type Ratio, type Seen } from './row.ts'

/** Our rate to that of another; of several, to what is left when each item passes through all of them. */
export const rateTo = (name: string, ...others: readonly string[]): Ratio => ({
  name: `rate to ${name}`,
  better: 'more',
  of: (seen) => seen('ours', 'per_second') / inSeries(...others.map((other) => seen(other, 'per_second'))),
})

/** The same with the processor time of the database server, which works for anyone who asks it. */
export const wholeCpuOf = (name: string, ...others: readonly string[]): Ratio => {
  const whole = (seen: Seen, who: string): number => seen(who, 'cpu_us') + (seen(who, 'server_us') || 0)
  return {
    name: `CPU of ${name} to ours, with PostgreSQL's`,
    better: 'more',
    isSteady: true,
    of: (seen) => others.reduce((sum, other) => sum + whole(seen, other), 0) / whole(seen, 'ours'),
  }
}

/** The processor time of another, or of several in sum, to ours. */
export const cpuOf = (name: string, ...others: readonly string[]): Ratio => ({
  name: `CPU of ${name} to ours`,
  better: 'more',
  isSteady: true,
  of: (seen) => others.reduce((sum, other) => sum + seen(other, 'cpu_us'), 0) / seen('ours', 'cpu_us'),
})

// The steady ratios on record, and what a run may make of them: a machine that is shared moves them by a part, a change
// for the worse by a multiple. Times are never held against anything.

/** How many times worse than on record a ratio may be. */
const MARGIN = 2

const limits = z.record(
  z.string(),
  z.record(z.string(), z.strictObject({ better: z.enum(['more', 'less']), ratio: z.number().positive() })),
)

/** By row and name of the ratio. */
export type Limits = z.infer<typeof limits>

/** Throws when the file is not ours. */
export const readLimits = (file: string): Limits => limits.parse(JSON.parse(readFileSync(file, 'utf8')))

/**
 * What is worse than it may be, a sentence each. A ratio on record that was not measured is worse too; a row that could
 * not be measured says so itself.
 */
export function broken(rows: Report['rows'], recorded: Limits): string[] {
  return rows.flatMap((row) => {
    if (hasFailed(row)) return []
    const own = Object.entries(recorded[row.name] ?? {})
    return own.flatMap(([name, { better, ratio }]) => {
      const spread = row.ratios[name]?.spread
      if (!spread) return [`${row.name}: ${name} is on record and was not measured`]
      const worse = better === 'more' ? ratio / spread.median : spread.median / ratio
      if (worse <= MARGIN) return []
      return [
        `${row.name}: ${name} is ${spread.median.toFixed(3)}, ${worse.toFixed(1)} times worse than the ${ratio} on record`,
      ]
    })
  })
}

/** What was recorded, with the ratios of these rows put in its place. */
export function recorded(rows: Report['rows'], before: Limits): Limits {
  const measured = rows.flatMap((row) => {
    if (hasFailed(row)) return []
    const own = Object.entries(row.ratios).flatMap(([name, { better, isSteady, spread }]) =>
      spread && isSteady ? [[name, { better, ratio: Number(spread.median.toPrecision(3)) }]] : [],
    )
    return own.length === 0 ? [] : [[row.name, Object.fromEntries(own)]]
  })
  return { ...before, ...Object.fromEntries(measured) }
}

export const writeLimits = (file: string, all: Limits): void =>
  writeFileSync(file, `${JSON.stringify(all, null, 2)}\n`)

// What becomes of the figures of several rounds.

/** The middle one of several rounds, and how far they lay apart. */
export type Spread = { median: number; least: number; most: number }

/** Of an even number the upper middle one. Not a number without any. */
export function median(values: readonly number[]): number {
  return percentile(values, 0.5)
}

/** The smallest value that at least this share of them does not exceed, by nearest rank. */
export function percentile(values: readonly number[] | Float64Array, share: number): number {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** Null when a round has no such figure. */
export function spreadOf(values: readonly number[]): Spread | null {
  if (values.length === 0 || !values.every(Number.isFinite)) return null
  return { median: median(values), least: Math.min(...values), most: Math.max(...values) }
}

/** What is left of a rate when each item has to pass through all of these, one after the other. */
export function inSeries(...rates: readonly number[]): number {
  return 1 / rates.reduce((sum, rate) => sum + 1 / rate, 0)
}
