// The storyline of the demonstration: the users, their plans and the incidents. Data only: play.ts plays it.

import {
  DAY_MS,
  HOUR_MS,
  type Instant,
  MINUTE_MS,
  midnightOf,
  parseInstant,
  plus,
  utcDate,
} from '../../core/time.ts'
import type { Frequency } from '../../core/window.ts'
import type { Manners } from './simulated-partner.ts'

/** A fixed Monday, so that the same seed gives the same story on every day. */
export const START = midnightOf(2026, 1, 5)
export const WEEKS = 4
export const DAYS = 7 * WEEKS
export const LENGTH_MS = DAYS * DAY_MS
/** Simulated time between two scheduler passes: each is a commit that waits for the disk, so not too many. */
export const PASS_EVERY_MS = 30 * MINUTE_MS
/** The partner looks for work this long after each pass. */
export const POLL_AFTER_MS = MINUTE_MS
/** The synthetic path has a price this often. */
export const PATH_STEP_MS = MINUTE_MS
/** Time after the last window in which the partner confirms what is still open. */
export const TAIL_MS = 6 * HOUR_MS

export const USERS = ['ana', 'ben', 'chloe', 'dan', 'eva'] as const
type UserName = (typeof USERS)[number]

type ScriptedPlan = { plan: string; user: UserName; amountUsd: string; frequency: Frequency }

export const PLANS: readonly ScriptedPlan[] = [
  { plan: 'ana-daily', user: 'ana', amountUsd: '60.00', frequency: 'daily' },
  { plan: 'ana-week', user: 'ana', amountUsd: '350.00', frequency: 'weekly' },
  { plan: 'ben-daily', user: 'ben', amountUsd: '12.50', frequency: 'daily' },
  { plan: 'ben-2weeks', user: 'ben', amountUsd: '1400.00', frequency: 'bi-weekly' },
  // Less than the smallest tranche: bought in one piece.
  { plan: 'chloe-tiny', user: 'chloe', amountUsd: '3.00', frequency: 'daily' },
  { plan: 'dan-week', user: 'dan', amountUsd: '100.00', frequency: 'weekly' },
  { plan: 'eva-2weeks', user: 'eva', amountUsd: '500.00', frequency: 'bi-weekly' },
]

/** The first time after `from` that the plan has an open execution, its user is disabled or the plan is cancelled. */
export const CANCELLED = { plan: 'eva-2weeks', from: START + 9 * DAY_MS }
export const DISABLED = { user: 'dan' as UserName, plan: 'dan-week', from: START + 16 * DAY_MS }

/** How often the partner does not simply fill an order, and how often it never sees the answer to its report. */
export const MANNERS: Manners = { partial: 0.05, failed: 0.03, silent: 0.03, answerLost: 0.05 }

type Span = { from: number; to: number }

/** Cron does not run: for longer than a daily plan's slot of eight hours. */
export const OUTAGE: Span = { from: START + 8 * DAY_MS + 7 * HOUR_MS, to: START + 8 * DAY_MS + 17 * HOUR_MS }
/** The price feed does not answer: tranches go by the clock. */
export const FEED_DOWN: Span = { from: START + 15 * DAY_MS, to: START + 16 * DAY_MS }

export const isWithin = (span: Span, at: Instant): boolean => span.from <= at && at < span.to

/** Plans of which one window each is drawn at the end. */
export const DRAWN = ['ana-daily', 'ana-week'] as const

// Days as the account writes them, all in UTC.

const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** The instant so many days after one in the form of an answer. */
function dayAfter(instant: string, daysOn: number): Instant {
  const parsed = parseInstant(instant)
  if (!parsed.ok) throw new Error(`not an instant: ${instant}`)
  return plus(parsed.at, daysOn * DAY_MS)
}

/** The first day of all instants, 1 January 1970, was a Thursday. */
export const weekday = (instant: string, daysOn = 0): string =>
  WEEKDAYS[(Math.floor(dayAfter(instant, daysOn) / DAY_MS) + 3) % 7] ?? ''

export const shortDate = (instant: string, daysOn = 0): string =>
  `${dayOfMonth(instant, daysOn)} ${MONTHS[Number(utcDate(dayAfter(instant, daysOn)).slice(5, 7)) - 1]}`

export const dayOfMonth = (instant: string, daysOn = 0): number =>
  Number(utcDate(dayAfter(instant, daysOn)).slice(8))
