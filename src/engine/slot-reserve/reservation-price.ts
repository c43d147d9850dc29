// The prices that the units of a slot wait for. The rule is k-min search with reservation prices (Lorenz, Panagiotou
// and Steger, "Optimal algorithms for k-search with application in option pricing", Algorithmica 55, 2009).

import { HOUR_MS } from '../../core/instant.ts'
import type { Price } from '../../core/money.ts'
import type { Reference } from '../../core/schedule-state.ts'
import type { Planned } from './slots.ts'

/** Scales the half-width of the price band: hw = C * sigma * sqrt(hours of the slot). */
const C = 0.5
/** Fixed-point scale for applying a ratio to a price. */
const RATIO_ONE = 2 ** 40

/** The price at or under which unit `m` (0-based) of a slot with `k` units fires. */
export function reservationPrice(reference: Reference, m: number, k: number): Price {
  const ratio = Math.exp(reference.halfWidth * (1 - 2 * (1 + 1 / k) ** (m - k)))
  return ((reference.price * BigInt(Math.round(ratio * RATIO_ONE))) / BigInt(RATIO_ONE)) as Price
}

/** The slot's reference: fixed at its first live price, kept through a stale feed. */
export function referenceOf(
  seen: Planned,
  slot: number,
  pass: { price: Price | null; sigma: number },
): Reference | null {
  if (seen.slot === slot && seen.reference) return seen.reference
  if (pass.price === null) return null
  const hours = (seen.windowEnd - seen.windowStart) / seen.layout.slots / HOUR_MS
  return { price: pass.price, halfWidth: C * pass.sigma * Math.sqrt(hours) }
}
