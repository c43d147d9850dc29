// What a store keeps of passes, and what a pass makes of those before it.

import type { Instant } from '../core/instant.ts'

/** Passes kept on record: a week of minutely ones. */
export const PASSES_KEPT = 10_080
/** Characters kept of why a feed failed: some of it is in the feed's own words. */
export const FAILURE_MAX = 300

/** Time between passes, oldest first; after a clock that was set back, none. */
export function gapsMs(latestFirst: readonly (bigint | Instant)[]): number[] {
  const at = latestFirst.map(Number).reverse()
  return at.slice(1).map((t, i) => Math.max(0, t - (at[i] ?? t)))
}
