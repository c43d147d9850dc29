// The storyline of the demonstration: the users, their plans and the incidents. Data only: play.ts plays it.

import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, midnightOf, plus } from '../../core/time.ts'
import type { Manners } from './simulated-partner.ts'

/** A fixed Monday, so that the same seed gives the same story on every day. */
export const START = midnightOf(2026, 1, 5)
export const WEEKS = 4
export const DAYS = 7 * WEEKS
export const END = plus(START, DAYS * DAY_MS)
/** Simulated time between two scheduler passes: each is a commit that waits for the disk, so not too many. */
export const PASS_EVERY_MS = 30 * MINUTE_MS
/** The partner looks for work this long after each pass. */
export const POLL_AFTER_MS = MINUTE_MS
/** The synthetic path has a price this often. */
export const PATH_STEP_MS = MINUTE_MS
/** Time after the last window in which the partner confirms what is still open. */
export const TAIL_MS = 6 * HOUR_MS

export const USERS = ['ana', 'ben', 'chloe', 'dan', 'eva'] as const

const planOf = (user: (typeof USERS)[number], name: string, amount_usd: string, frequency: string) =>
  ({ partner_user_id: user, partner_plan_id: `${user}-${name}`, amount_usd, frequency }) as const

const EVAS = planOf('eva', '2weeks', '500.00', 'bi-weekly')

export const PLANS = [
  planOf('ana', 'daily', '60.00', 'daily'),
  planOf('ana', 'week', '350.00', 'weekly'),
  planOf('ben', 'daily', '12.50', 'daily'),
  planOf('ben', '2weeks', '1400.00', 'bi-weekly'),
  // Less than the smallest tranche: bought in one piece.
  planOf('chloe', 'tiny', '3.00', 'daily'),
  planOf('dan', 'week', '100.00', 'weekly'),
  EVAS,
]

/** The first time after `from` that the plan has an open execution, its user is disabled or the plan is cancelled. */
export const CANCELLED = { plan: EVAS, from: START + 9 * DAY_MS }
export const DISABLED = { user: 'dan', plan: 'dan-week', from: START + 16 * DAY_MS }

/** How often the partner does not simply fill an order, and how often it never sees the answer to its report. */
export const MANNERS: Manners = { partial: 0.05, failed: 0.03, silent: 0.03, answerLost: 0.05 }

type Span = { from: number; to: number }

/** Cron does not run: for longer than a daily plan's slot of eight hours. */
export const OUTAGE: Span = { from: START + 8 * DAY_MS + 7 * HOUR_MS, to: START + 8 * DAY_MS + 17 * HOUR_MS }
/** The price feed does not answer: tranches go by the clock. */
export const FEED_DOWN: Span = { from: START + 15 * DAY_MS, to: START + 16 * DAY_MS }

export const isWithin = (span: Span, at: Instant): boolean => span.from <= at && at < span.to

/** Plans of which one window each is drawn at the end: a daily one and a weekly one. */
export const DRAWN = ['ana-daily', 'ana-week']
