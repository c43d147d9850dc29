// Work that many callers may ask for at the same time, and that is done once for all of them.

import type { Instant } from '../../core/instant.ts'

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

/** Does the work at most once in so many milliseconds by a clock: callers that ask meanwhile get its outcome. */
export function keptFor<A extends unknown[], T>(
  ms: number,
  clock: () => Instant,
  work: (...args: A) => Promise<T>,
): (...args: A) => Promise<T> {
  let kept: { at: Instant; outcome: Promise<T> } | null = null
  return (...args) => {
    const now = clock()
    // When a clock is set back, an answer must not be kept for that much longer.
    if (kept === null || Math.abs(now - kept.at) >= ms) kept = { at: now, outcome: work(...args) }
    return kept.outcome
  }
}
