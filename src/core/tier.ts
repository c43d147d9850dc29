// Pricing tiers, versioned by month: what finance charges is fixed before the month begins or while it runs.

import type { Usd } from './money.ts'
import { Problem } from './problem.ts'

export type Tier = {
  name: string
  /** The first month (YYYY-MM) this version is in force. */
  fromMonth: string
  minVolume: Usd
  rateBps: number
  perActiveUser: Usd
  monthlyMinimum: Usd
}

export const TIER_NAME_PATTERN = /^[a-z0-9][a-z0-9-]{0,31}$/
export const RATE_BPS_MAX = 10_000

/** Refuses a change that would reach into a month that is over. */
export function refusePastMonth(fromMonth: string, currentMonth: string): void {
  if (fromMonth >= currentMonth) return
  throw new Problem('month_closed', `${fromMonth} is over; a change can start in ${currentMonth} or later.`)
}
