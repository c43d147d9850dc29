// Delivery under a lease: for how long an execution belongs to the poll that got it.

import type { Execution } from './execution.ts'
import { HOUR_MS, type Instant, MINUTE_MS, plus } from './instant.ts'

export const LEASE_MS = 5 * MINUTE_MS
/** A lease that ends later than this was taken under a clock that has been set back since: it has ended. */
export const LEASE_AHEAD_MAX_MS = HOUR_MS

/** Hands an execution to the partner: a fresh lease, one more delivery. */
export function deliver(execution: Execution, now: Instant): Execution {
  return {
    ...execution,
    status: 'sent',
    deliveredCount: execution.deliveredCount + 1,
    leaseExpiresAt: plus(now, LEASE_MS),
  }
}
