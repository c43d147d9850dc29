// The steady ratios on record, and what a run may make of them: a machine that is shared moves them by a part, a change
// for the worse by a multiple. Times are never held against anything.

import { readFileSync, writeFileSync } from 'node:fs'
import { z } from 'zod'
import type { Report } from './report.ts'
import { hasFailed } from './row.ts'

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
