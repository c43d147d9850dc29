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
