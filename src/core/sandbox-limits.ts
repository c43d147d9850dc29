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

/** `offsetMs` is how far it is ahead already. */
export const tooFar = ({ offsetMs }: { offsetMs: number }): Problem =>
  new Problem(
    'sandbox_refused',
    `A sandbox goes at most ${SANDBOX_OFFSET_MAX_MS / DAY_MS} days ahead; this one is ${Math.floor(offsetMs / DAY_MS)} ahead already.`,
  )

export const asleep = (partnerPlanId: string): Problem =>
  new Problem(
    'sandbox_refused',
    `Plan ${partnerPlanId} fires nothing: it is not active, its smart timing is off, or its partner is disabled or held.`,
  )
