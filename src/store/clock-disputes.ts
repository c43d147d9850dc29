// Whether the clock is in doubt, for every process on the file.

import type { Dispute } from '../core/clock-dispute.ts'
import type { Instant } from '../core/instant.ts'

export interface ClockStore {
  /** Stores and returns what `decide` makes of the time that a write would have now and of the standing dispute. */
  judgeClock(decide: (now: Instant, standing: Dispute | null) => Dispute | null): Promise<Dispute | null>
  /** The time a write would have now, and the dispute that stands. */
  readClock(): Promise<{ now: Instant; standing: Dispute | null }>
}
