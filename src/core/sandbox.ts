// Sandboxes: the limits of what an operator or a partner may do in a test environment.

import type { Tenant } from './partner.ts'
import { Problem } from './problem.ts'
import { type Instant, MINUTE_MS, midnightOf, plus, SECOND_MS, utcDate } from './time.ts'

/** The latest time of a sandbox's clock. Windows that open before it end in a year that dates can express. */
export const SANDBOX_UNTIL = midnightOf(9_000, 1, 1)

/** With more plans than this, an advance stops at most once a minute, as ticks do. */
export const EXACT_PLANS_MAX = 1_000

export const ADVANCE_MAX_MS = 10 * MINUTE_MS

/** How long a call waits for its advance, which continues in the background. Clients give up after some ten seconds. */
export const ANSWER_AFTER_MS = 5 * SECOND_MS

/** The most executions that one call creates, and that a test environment holds: each takes some 4 KiB. */
export const ADVANCE_EXECUTIONS_MAX = 10_000
export const EXECUTIONS_MAX = 100_000

/** How many wake-ups a sandbox sends a webhook within a minute: its address may be somebody else's. */
export const WAKE_UPS_PER_MINUTE = 60

/** How many rows a partner may wipe at once: on a file, a wipe blocks every other partner for a few seconds. */
export const WIPE_ROWS_MAX = 350_000

const refused = (message: string): Problem => new Problem('sandbox_refused', message)

/** Throws sandbox_refused for a live tenant. */
export function refuseLive({ environment, partnerSlug }: Tenant): void {
  if (environment === 'test') return
  throw refused(`${partnerSlug} ${environment} is not a test environment.`)
}

/** Throws sandbox_refused for an advance beyond SANDBOX_UNTIL. `now` is the sandbox's time. */
export function refuseTooFar({ now }: { now: Instant }, byMs: number): void {
  if (plus(now, byMs) <= SANDBOX_UNTIL) return
  throw refused(`A sandbox goes as far as ${utcDate(SANDBOX_UNTIL)}; this one is at ${utcDate(now)} already.`)
}

export const planFiresNothing = (partnerPlanId: string): Problem =>
  refused(
    `Plan ${partnerPlanId} has nothing to fire: it is not active, its smart timing is off, or its partner is disabled or held.`,
  )

export const tooMuchToWipe = (partnerSlug: string): Problem =>
  refused(
    `This environment has grown too large to be wiped by a call: ask the operator for \`tranche sandbox reset ${partnerSlug}\`.`,
  )

export const sandboxFull = (): Problem =>
  new Problem('sandbox_full', `This environment holds ${EXECUTIONS_MAX} executions, the maximum: reset it.`)

export const liveIsNeverWiped = (): Problem => refused('Only a test environment can be wiped.')

export const advanceUnderWay = (): Problem =>
  new Problem('database_in_use', 'Another advance of this environment is running: wait until it ends.')
