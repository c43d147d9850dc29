// Whether the service is ready: its database takes writes, and passes run while there are plans to look at.

import { clockDisputed } from '../core/clock.ts'
import type { Instant } from '../core/instant.ts'
import { Problem } from '../core/problem.ts'
import { latenessInWords, schedulerLateness } from '../core/scheduler-lateness.ts'
import type { ClockStore } from '../store/clock.ts'
import type { MonitoringStore } from '../store/monitoring.ts'

/** How long whoever asks waits for the database: for another process's lock, or for a server that hangs. */
export const PROBE_TIMEOUT_MS = 2_000

/** What readiness asks of the database. */
export type Probed = Pick<MonitoringStore, 'probeWrite' | 'readScheduler'> & Pick<ClockStore, 'readClock'>

/** Answers why the service is not ready, in sentences; nothing when it is. The store is null until it is open. */
export function createReadiness(): (store: Probed | null) => Promise<string[]> {
  const probe = shared(async (open: Probed) => open.probeWrite())
  const doubt = shared(doubtOrLateness)

  return async (store) => {
    if (!store) return ['The database is not open yet.']
    // Side by side: both together take no longer than either may.
    const reasons = await Promise.all([
      within(PROBE_TIMEOUT_MS, probe(store), 'it is locked').then(
        () => null,
        (error: Error) => worded(error, 'The database cannot be written: '),
      ),
      within(PROBE_TIMEOUT_MS, doubt(store), 'it has not answered').catch((error: Error) =>
        worded(error, 'The database cannot be read: '),
      ),
    ])
    return [...new Set(reasons)].filter((reason) => reason !== null)
  }
}

/** By the store's time, as passes are dated: on a server that is another host's clock, and this one's may be wrong. */
async function doubtOrLateness(open: Probed): Promise<string | null> {
  const { now, standing } = await open.readClock()
  if (standing) return clockDisputed(standing).message
  const seen = await open.readScheduler()
  const { isLate, usualGapMs } = schedulerLateness(seen, now)
  return isLate ? `The scheduler is late: ${latenessInWords(seen, now, usualGapMs)}.` : null
}

const OF_THE_WHOLE = [
  'database_gone',
  'database_damaged',
  'database_sealed',
  'storage_failed',
  'schema_newer',
]

/** What is wrong with the database as a whole is neither read nor written: said once, it is said. */
const worded = (error: Error, otherwise: string): string =>
  error instanceof Problem && OF_THE_WHOLE.includes(error.code) ? error.message : otherwise + error.message

/** Rejects with `why` when the work takes longer; the work itself goes on. */
async function within<T>(ms: number, work: Promise<T>, why: string): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`${why} for more than ${ms / 1000} s`)), ms)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** One run at a time: whoever asks while it lasts gets its outcome, so that askers in a hurry pile up no work. */
export function shared<A extends unknown[], T>(work: (...args: A) => Promise<T>): (...args: A) => Promise<T> {
  let running: Promise<T> | null = null
  return (...args) => {
    running ??= work(...args).finally(() => {
      running = null
    })
    return running
  }
}

/** Does the work at most once in so many milliseconds by a clock: whoever asks meanwhile gets its outcome. */
export function keptFor<A extends unknown[], T>(
  ms: number,
  clock: () => Instant,
  work: (...args: A) => Promise<T>,
): (...args: A) => Promise<T> {
  let kept: { at: Instant; outcome: Promise<T> } | null = null
  return (...args) => {
    const now = clock()
    // A clock that was set back must not keep an answer for as long.
    if (kept === null || Math.abs(now - kept.at) >= ms) kept = { at: now, outcome: work(...args) }
    return kept.outcome
  }
}
