// Whether the service is ready: its database takes writes, and passes run while there are plans to look at.

import { clockDisputed } from '../../core/clock-dispute.ts'
import { writesLost } from '../../core/lost-writes.ts'
import { Problem } from '../../core/problem.ts'
import { latenessInWords, schedulerLateness } from '../../core/scheduler-lateness.ts'
import type { ClockStore } from '../../store/clock-disputes.ts'
import type { LostWriteStore } from '../../store/lost-writes.ts'
import type { MonitoringStore } from '../../store/monitoring.ts'
import { shared } from './shared-work.ts'

/** How long a caller waits for the database: for another process's lock, or for a server that hangs. */
export const PROBE_TIMEOUT_MS = 2_000

/** What readiness asks of the database. */
export type Probed = Pick<MonitoringStore, 'probeWrite' | 'readScheduler'> &
  Pick<ClockStore, 'readClock'> &
  Pick<LostWriteStore, 'readLostWrites'>

/** Returns why the service is not ready, in sentences; an empty list when it is. The store is null until it is open. */
export function createReadiness(): (store: Probed | null) => Promise<string[]> {
  const probe = shared(async (open: Probed) => open.probeWrite())
  const doubt = shared(doubtOrLateness)

  return async (store) => {
    if (!store) return ['The database is not open yet.']
    // In parallel: both together take no longer than either may.
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
  if (await open.readLostWrites()) return writesLost().message
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

/** A database that is unusable as a whole fails both the read and the write: it is reported only once. */
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
