// The price several sources agree on.

import { type Price, priceAsNumber } from '../core/money.ts'

export const SOURCES_MIN = 2
/** How far from the middle a source may be, as a share of it, before it is taken for wrong. */
export const OUTLIER_SHARE = 0.02

/** The median of the prices near the median of all; null when fewer than SOURCES_MIN are left. */
export function median(prices: readonly Price[]): Price | null {
  const centre = middleOf(prices)
  if (centre === null) return null
  const near = prices.filter(
    (one) => Math.abs(priceAsNumber(one) / priceAsNumber(centre) - 1) <= OUTLIER_SHARE,
  )
  return near.length < SOURCES_MIN ? null : middleOf(near)
}

function middleOf(prices: readonly Price[]): Price | null {
  const sorted = [...prices].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))
  const upper = sorted[Math.floor(sorted.length / 2)]
  const lower = sorted[Math.ceil(sorted.length / 2) - 1]
  return upper === undefined || lower === undefined ? null : (((upper + lower) / 2n) as Price)
}
