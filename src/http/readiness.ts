// Whether the service is ready: its database takes writes, and passes run while there are plans to look at.

import { clockDisputed } from '../core/clock.ts'
import type { Instant } from '../core/instant.ts'
import { Problem } from '../core/problem.ts'
import { latenessInWords, schedulerLateness } from '../core/scheduler-lateness.ts'
import type { MonitoringStore } from '../store/monitoring.ts'

/** How long a probe waits for another process's lock. */
export const PROBE_TIMEOUT_MS = 2_000

/** Answers why the service is not ready, in sentences; nothing when it is. The store is null until it is open. */
export function createReadiness(clock: () => Instant): (store: MonitoringStore | null) => Promise<string[]> {
  const probe = shared(async (open: MonitoringStore) => open.probeWrite())

  async function doubtOrLateness(open: MonitoringStore): Promise<string | null> {
    const dispute = await open.readDispute()
    if (dispute) return clockDisputed(dispute).message
    const seen = await open.readScheduler()
    const now = clock()
    const { isLate, usualGapMs } = schedulerLateness(seen, now)
    return isLate ? `The scheduler is late: ${latenessInWords(seen, now, usualGapMs)}.` : null
  }

  return async (store) => {
    if (!store) return ['The database is not open yet.']
    const reasons = [await failureOf(within(PROBE_TIMEOUT_MS, probe(store)))]
    const late = await doubtOrLateness(store).catch((error: Error) =>
      worded(error, 'The database cannot be read: '),
    )
    return [...new Set([...reasons, late])].filter((reason) => reason !== null)
  }
}

async function failureOf(probe: Promise<unknown>): Promise<string | null> {
  try {
    await probe
    return null
  } catch (error) {
    return worded(error as Error, 'The database cannot be written: ')
  }
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

/** Rejects when the work takes longer; the work itself goes on. */
async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`it is locked for more than ${ms / 1000} s`)), ms)
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
