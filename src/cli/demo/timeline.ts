// A window as it went: its prices and its tranches over time, and which windows are worth drawing.

import type { ExecutionStatus, Trigger } from '../../core/execution.ts'
import type { Frequency } from '../../core/frequency.ts'
import { formatInstant, type Instant } from '../../core/instant.ts'
import { formatPrice, formatUsd, priceAsNumber } from '../../core/money.ts'
import type { Story } from './play.ts'
import type { ReadPlan, ReadTranche, ReadWindow } from './read-plans.ts'
import { DRAWN, PATH_STEP_MS } from './storyline.ts'

export type TimelineTranche = {
  at: string
  /** Where in the window, from 0 to 1. */
  position: number
  trigger: Trigger
  amount_usd: string
  price_usd: string | null
  reservation_price_usd: string | null
  status: ExecutionStatus
  spent_usd: string
}

export type Timeline = {
  partner_plan_id: string
  frequency: Frequency
  window_start: string
  window_end: string
  budget_usd: string
  spent_usd: string
  /** Evenly spaced over the window, each the mean of its share of the time. */
  prices_usd: number[]
  tranches: TimelineTranche[]
}

/** Columns of a drawing; seven days and four quarters of a day fall on whole or nearly whole ones. */
export const TIMELINE_COLUMNS = 63

/** For each plan to draw, the window in which the most went wrong; the earliest if several are equal. */
export function chooseTimelines(plans: readonly ReadPlan[], story: Story): Timeline[] {
  return DRAWN.flatMap((name) => {
    const found = plans.find(({ plan }) => plan.partnerPlanId === name)
    const windows = found?.windows.filter(({ ranItsCourse }) => ranItsCourse) ?? []
    const [chosen] = windows.toSorted((a, b) => liveliness(b) - liveliness(a))
    return found && chosen ? [timelineOf(found, chosen, story)] : []
  })
}

/** How much a window has to show: each reason to fire, and each outcome other than a fill. */
function liveliness({ tranches }: ReadWindow): number {
  const triggers = new Set(tranches.map(({ firing }) => firing.trigger)).size
  return triggers + tranches.filter(({ status }) => status !== 'filled').length
}

function timelineOf({ plan }: ReadPlan, { window, tranches }: ReadWindow, story: Story): Timeline {
  const { start, end } = window
  return {
    partner_plan_id: plan.partnerPlanId,
    frequency: plan.frequency,
    window_start: formatInstant(start),
    window_end: formatInstant(end),
    budget_usd: formatUsd(window.budget),
    spent_usd: formatUsd(window.spent),
    prices_usd: pricesBetween(start, end, story),
    tranches: tranches.map((tranche) => trancheOf(tranche, (tranche.createdAt - start) / (end - start))),
  }
}

const trancheOf = (
  { createdAt, amount, firing, status, trade }: ReadTranche,
  position: number,
): TimelineTranche => ({
  at: formatInstant(createdAt),
  position: Math.round(position * 10_000) / 10_000,
  trigger: firing.trigger,
  amount_usd: formatUsd(amount),
  price_usd: firing.price === null ? null : formatPrice(firing.price),
  reservation_price_usd: firing.reservationPrice === null ? null : formatPrice(firing.reservationPrice),
  status,
  spent_usd: trade && 'usdAmount' in trade.report ? formatUsd(trade.report.usdAmount) : '0.00',
})

function pricesBetween(start: Instant, end: Instant, { path, from }: Story): number[] {
  const index = (column: number): number =>
    Math.round((start - from + ((end - start) * column) / TIMELINE_COLUMNS) / PATH_STEP_MS)
  return Array.from({ length: TIMELINE_COLUMNS }, (_, column) => {
    const share = path.slice(index(column), index(column + 1)).map(priceAsNumber)
    return Math.round((100 * share.reduce((sum, price) => sum + price, 0)) / share.length) / 100
  })
}
