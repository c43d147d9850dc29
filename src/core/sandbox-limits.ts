// How far a sandbox may go, and what it refuses.

import { DAY_MS } from './instant.ts'
import type { Tenant } from './partner.ts'
import { Problem } from './problem.ts'

/** The most that a sandbox may be ahead of the real time, in all. */
export const SANDBOX_OFFSET_MAX_MS = 3_650 * DAY_MS

/** Throws sandbox_refused for a live tenant. */
export function refuseLive({ environment, partnerSlug }: Tenant): void {
  if (environment === 'test') return
  throw new Problem('sandbox_refused', `${partnerSlug} ${environment} is not a test environment.`)
}

/** Throws sandbox_refused for an advance beyond the most. `offsetMs` is how far the sandbox is ahead already. */
export function refuseTooFar({ offsetMs }: { offsetMs: number }, byMs: number): void {
  if (offsetMs + byMs <= SANDBOX_OFFSET_MAX_MS) return
  throw new Problem(
    'sandbox_refused',
    `A sandbox goes at most ${SANDBOX_OFFSET_MAX_MS / DAY_MS} days ahead; this one is ${Math.floor(offsetMs / DAY_MS)} ahead already.`,
  )
}

export const asleep = (partnerPlanId: string): Problem =>
  new Problem(
    'sandbox_refused',
    `Plan ${partnerPlanId} fires nothing: it is not active, its smart timing is off, or its partner is disabled or held.`,
  )

export const notToWipe = (): Problem =>
  new Problem('sandbox_refused', 'Only a test environment can be wiped.')

export const advanceUnderWay = (): Problem =>
  new Problem('database_in_use', 'Another advance is running: wait until it ends.')
