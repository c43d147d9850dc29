// What a row of the bench is: something of ours that is measured, what it is held against in the same run, and the
// goal.

import type { Backend } from './backend.ts'

/** What one turn of a contestant gives, each in its unit. What a system cannot tell is left out. */
export type Figures = Partial<Record<Figure, number>>
export type Figure = keyof typeof FIGURES

/** How each figure is written: its unit, and how many decimals a small one has. */
export const FIGURES = {
  per_second: { unit: '/s', places: 0 },
  ms: { unit: 'ms', places: 2 },
  p50_ms: { unit: 'ms p50', places: 1 },
  p99_ms: { unit: 'ms p99', places: 1 },
  /** Processor time of the process that is measured, for each request or item. */
  cpu_us: { unit: 'µs CPU', places: 1 },
  /** Processor time of the database server for the same, all its processes together. */
  server_us: { unit: 'µs CPU of PostgreSQL', places: 1 },
  /** How much of one core that process had while it was measured: at 1 it was the limit, and not the load. */
  busy: { unit: 'cores', places: 2 },
  chunk_p50_ms: { unit: 'ms p50 between commits', places: 1 },
  chunk_max_ms: { unit: 'ms the longest', places: 1 },
  first_ms: { unit: 'ms the first page', places: 1 },
  idle_ms: { unit: 'ms an idle tick', places: 1 },
  start_ms: { unit: 'ms to listen', places: 0 },
  resident_mib: { unit: 'MiB', places: 0 },
  peak_mib: { unit: 'MiB peak', places: 0 },
  file_mib: { unit: 'MiB of file', places: 0 },
  database_mib: { unit: 'MiB of database', places: 0 },
  wal_bytes: { unit: 'bytes of WAL', places: 0 },
  errors: { unit: 'errors', places: 0 },
} as const

/** Ours, the least that the same work can cost, or somebody else's program that does the same. */
type Role = 'ours' | 'floor' | 'peer'

export type Contestant = {
  name: string
  role: Role
  /** One turn. Contestants take theirs one after the other, round by round. */
  take: (round: number) => Promise<Figures>
}

/** A figure of a contestant in a round; not a number where there is none. */
export type Seen = (contestant: string, figure: Figure) => number

export type Ratio = {
  name: string
  better: 'more' | 'less'
  /** Of processor times or memory, which other work on the machine moves little: for the limits on record. */
  isSteady?: true
  of: (seen: Seen) => number
}

/** The median of a ratio, or of a figure of the contestant named `ours`, is to be within this. */
export type Goal = ({ ratio: string } | { figure: Figure; of?: string }) &
  ({ atLeast: number } | { atMost: number })

/** What to measure with: `--quick` is less of everything. */
export type Scale = {
  quick: boolean
  rounds: number
  /** What keeps the databases. */
  on: Backend
  /** One of two sizes or lists of sizes. */
  pick: <T>(sizes: { quick: T; full: T }) => T
}

/** Where a row lives: what it starts and makes is gone when it has been measured. */
export type Stage = {
  /** On a disk, because most of what is measured waits for one. */
  folder: string
  after: (end: () => unknown) => void
}

export type Prepared = {
  /** What it is measured on, with its size. */
  on: string
  contestants: Contestant[]
  /** What a reader of the figures has to know. */
  notes?: string[]
}

export type Row = {
  name: string
  /** What is measured, in a line. */
  what: string
  /** The figure that is compared. */
  main: Figure
  ratios: Ratio[]
  goals: Goal[]
  /** Measured in --quick only when it is asked for by name. */
  fullOnly?: true
  /** Where a turn takes minutes. */
  roundsMax?: number
  /** Makes what is measured. Throws when that cannot be. */
  prepare: (stage: Stage, scale: Scale) => Promise<Prepared>
}

export type Measured = {
  name: string
  role: Role
  figures: Partial<Record<Figure, Spread>>
}

/** What came of a row; a ratio or goal is null where a figure was missing. */
export type Result = {
  name: string
  what: string
  main: Figure
  on: string
  rounds: number
  seconds: number
  contestants: Measured[]
  ratios: Record<string, { better: Ratio['better']; isSteady: boolean; spread: Spread | null }>
  /** The value is of a ratio where it is not of a figure, and so has no unit. */
  goals: { words: string; unit: Figure | null; value: number | null; isMet: boolean | null }[]
  notes: string[]
}

export type Failure = { name: string; what: string; failed: string }

export const hasFailed = (outcome: Result | Failure): outcome is Failure => 'failed' in outcome

// The ratios that several rows have: ours to what is measured beside it.

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
