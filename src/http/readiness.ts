// Whether the service is ready: its database takes writes, and passes run while there are plans to look at.

import { type Instant, MINUTE_MS } from '../core/instant.ts'
import type { MonitoringStore } from '../store/monitoring.ts'

/** A pass a minute is the rule; so many that are missing are no accident. */
export const TICK_FRESH_MS = 10 * MINUTE_MS
/** How many of its own intervals a slower scheduler may miss. */
export const TICKS_MISSED_MAX = 3
/** How long a probe waits for another process's lock. */
export const PROBE_TIMEOUT_MS = 2_000

export type ReadinessOptions = {
  clock: () => Instant
  /** How often passes run inside this process, null when cron runs them. */
  tickEveryMs: number | null
}

/** Answers why the service is not ready, in sentences; nothing when it is. The store is null until it is open. */
export function createReadiness({
  clock,
  tickEveryMs,
}: ReadinessOptions): (store: MonitoringStore | null) => Promise<string[]> {
  const freshMs = Math.max(TICK_FRESH_MS, TICKS_MISSED_MAX * (tickEveryMs ?? 0))
  const probe = shared(async (open: MonitoringStore) => open.probeWrite())

  async function staleness(open: MonitoringStore): Promise<string | null> {
    const { lastPassAt, plansWaiting } = await open.readPassHealth()
    if (!plansWaiting) return null
    if (lastPassAt === null) return 'Plans are active and no pass has ever run.'
    const ageMs = clock() - lastPassAt
    if (ageMs <= freshMs) return null
    return `Plans are active and the last finished pass began ${Math.round(ageMs / 1000)} s ago.`
  }

  return async (store) => {
    if (!store) return ['The database is not open yet.']
    const reasons = [await failureOf(within(PROBE_TIMEOUT_MS, probe(store)))]
    const stale = await staleness(store).catch(
      (error: Error) => `The database cannot be read: ${error.message}`,
    )
    return [...reasons, stale].filter((reason) => reason !== null)
  }
}

async function failureOf(probe: Promise<unknown>): Promise<string | null> {
  try {
    await probe
    return null
  } catch (error) {
    return `The database cannot be written: ${(error as Error).message}`
  }
}

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
