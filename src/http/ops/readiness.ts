// Readiness: whether the database takes writes, and whether passes run while plans wait for them. Also how work
// requested by many callers is done once.

import { clockDisputed, latenessInWords, schedulerLateness } from '../../core/clock.ts'
import { standbyWords } from '../../core/findings.ts'
import type { Frozen } from '../../core/frozen.ts'
import { Problem } from '../../core/problem.ts'
import { type Instant, MINUTE_MS } from '../../core/time.ts'
import type { MonitoringStore, Stock } from '../../store/monitoring.ts'
import type { ClockStore, FreezeStore } from '../../store/store.ts'

/** How long a caller waits for the database: for another process's lock, or for a server that hangs. */
export const PROBE_TIMEOUT_MS = 2_000

type Probed = Pick<MonitoringStore, 'probeWrite' | 'readScheduler' | 'readStandbyAway'> &
  Pick<ClockStore, 'readClock'> &
  Pick<FreezeStore, 'readFrozen'>

/** Why it is not ready, in sentences. A frozen service is ready for the calls it still takes. */
export type Readiness = { reasons: string[]; frozen: Frozen | null }

export function createReadiness(): (store: Probed | null) => Promise<Readiness> {
  const probe = shared(async (open: Probed) => open.probeWrite())
  const doubt = shared(doubtOrLateness)
  const state = shared(async (open: Probed) => open.readFrozen())
  const standby = shared(async (open: Probed) => open.readStandbyAway())

  return async (store) => {
    if (!store) return { reasons: ['The database is not open yet.'], frozen: null }
    const read = within(PROBE_TIMEOUT_MS, state(store), 'it has not answered')
    // A failure here fails the reads below as well.
    read.catch(() => {})
    // In parallel, so that both together take no longer than one may.
    const away = within(PROBE_TIMEOUT_MS, standby(store), '').catch(() => null)
    const reasons = await Promise.all([
      within(PROBE_TIMEOUT_MS, probe(store), 'it is locked').then(
        () => null,
        async (error: Error) => {
          const names = await away
          return names === null
            ? worded(error, 'The database cannot be written: ')
            : `The server of the database ${standbyWords(names)}.`
        },
      ),
      // No pass runs in a frozen database, and none checks its clock.
      within(
        PROBE_TIMEOUT_MS,
        read.then((frozen) => (frozen ? null : doubt(store))),
        'it has not answered',
      ).catch((error: Error) => worded(error, 'The database cannot be read: ')),
    ])
    const frozen = await read.catch(() => null)
    return { reasons: [...new Set(reasons)].filter((reason) => reason !== null), frozen }
  }
}

/** By the store's time, which dates passes: on a server that is the server's clock, and this host's may be wrong. */
async function doubtOrLateness(open: Probed): Promise<string | null> {
  const { now, standing } = await open.readClock()
  if (standing) return clockDisputed(standing).message
  const facts = await open.readScheduler()
  const { isLate, usualGapMs } = schedulerLateness(facts, now)
  return isLate ? `The scheduler is late: ${latenessInWords(facts, now, usualGapMs)}.` : null
}

const OF_THE_WHOLE = ['database_gone', 'database_damaged', 'database_moved', 'storage_failed', 'schema_newer']

/** An unusable database fails both the read and the write, but is reported only once. */
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

// Work that many callers may ask for at the same time, done once for all of them.

/** One run at a time: callers that ask while it lasts get its outcome, so that frequent calls do not pile up work. */
export function shared<A extends unknown[], T>(work: (...args: A) => Promise<T>): (...args: A) => Promise<T> {
  let running: Promise<T> | null = null
  return (...args) => {
    running ??= work(...args).finally(() => {
      running = null
    })
    return running
  }
}

/** Does the work at most once in `ms` by a clock: callers that ask meanwhile get the same outcome. */
export function keptFor<A extends unknown[], T>(
  ms: number,
  clock: () => Instant,
  work: (...args: A) => Promise<T>,
): (...args: A) => Promise<T> {
  let last: { at: Instant; outcome: Promise<T> } | null = null
  return (...args) => {
    const now = clock()
    // When the clock is set back, an answer must not be kept for that much longer.
    if (last === null || Math.abs(now - last.at) >= ms) last = { at: now, outcome: work(...args) }
    return last.outcome
  }
}

// The stock: counts over all plans, and the windows that left money. It takes reading many rows, so it is read at most
// once a minute.

export const STOCK_TAKEN_MS = MINUTE_MS

export type TakeStock = (store: Pick<MonitoringStore, 'takeStock'>, now: Instant) => Promise<Stock>

/** Returns the latest stock until it is too old, or the clock was set back by as much. */
export function createStockTaker(): TakeStock {
  let latest: { at: Instant; stock: Stock } | null = null
  return async (store, now) => {
    if (latest === null || Math.abs(now - latest.at) >= STOCK_TAKEN_MS)
      latest = { at: now, stock: await store.takeStock(now) }
    return latest.stock
  }
}
