// When the failsafe of a window begins: by how often passes have come lately.

import { type Instant, later, MINUTE_MS, plus } from './instant.ts'

export const FAILSAFE_LEAD_MIN_MS = 15 * MINUTE_MS
/** How many gaps between the last passes decide how early a failsafe begins. */
export const PASS_GAPS_SEEN = 8

/** How early the failsafe begins: twice the second-longest of the last tick gaps, so that one outage does not count. */
export function failsafeLead(passGapsMs: readonly number[]): number {
  const longestFirst = passGapsMs.slice(-PASS_GAPS_SEEN).sort((a, b) => b - a)
  return Math.max(FAILSAFE_LEAD_MIN_MS, 2 * (longestFirst[1] ?? 0))
}

/** When the failsafe of a window begins: so long before its end, and not before the window itself. */
export const failsafeStart = (
  { windowStart, windowEnd }: { windowStart: Instant; windowEnd: Instant },
  leadMs: number,
): Instant => later(windowStart, plus(windowEnd, -leadMs))
