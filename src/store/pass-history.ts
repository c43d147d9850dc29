// What a store keeps about passes, and what a pass works out from earlier ones.

import type { Instant } from '../core/instant.ts'

/** Passes kept on record: a week of minutely ones. */
export const PASSES_KEPT = 10_080
/** How many characters are kept of why a feed failed: some of that is in the feed's own words. */
export const FAILURE_MAX = 300

/** Time between passes, oldest first; after a clock that was set back, none. */
export function gapsMs(latestFirst: readonly (bigint | Instant)[]): number[] {
  const at = latestFirst.map(Number).reverse()
  return at.slice(1).map((t, i) => Math.max(0, t - (at[i] ?? t)))
}
