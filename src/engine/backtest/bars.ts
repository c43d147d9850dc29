// A price history as the backtest reads it: columns in time order, and what a scheduler would have known at each price.

import { failsafeLead } from '../../core/failsafe-start.ts'
import type { Instant } from '../../core/instant.ts'
import { type Price, priceAsNumber } from '../../core/money.ts'
import { FIRST_VOLATILITY, observe, sigma } from '../../core/volatility.ts'

/** Bars in time order, no two at one instant. */
export type History = {
  /** When a price became known. */
  at: Float64Array
  /** The price, in units of 1e-8 dollars. */
  price: BigInt64Array
  /** The price in dollars. */
  value: Float64Array
  /** The volatility that prices up to this one show to a scheduler. */
  sigma: Float64Array
  /** How early the failsafe begins when a pass comes with every price. */
  leadMs: number
}

type Point = { at: Instant; price: Price }

/**
 * Takes in prices part by part, in any order; of several at one instant the first one counts. None of the parts is
 * kept, so a long history takes little room.
 */
export function gatherHistory(): { add: (points: readonly Point[]) => void; history: () => History } {
  let at = new Float64Array(1_024)
  let price = new BigInt64Array(1_024)
  let length = 0
  return {
    add(points) {
      for (const point of points) {
        if (length === at.length) {
          at = new Float64Array(at.buffer.transfer(2 * at.byteLength))
          price = new BigInt64Array(price.buffer.transfer(2 * price.byteLength))
        }
        at[length] = point.at
        price[length] = point.price
        length += 1
      }
    },
    history: () => judged(inOrder({ at: at.subarray(0, length), price: price.subarray(0, length) })),
  }
}

type Prices = Pick<History, 'at' | 'price'>

function inOrder(prices: Prices): Prices {
  const { at, price } = prices
  if (at.every((instant, i) => i === 0 || instant > (at[i - 1] ?? 0))) return prices
  const order = Uint32Array.from(at.keys())
    .sort((a, b) => (at[a] ?? 0) - (at[b] ?? 0) || a - b)
    .filter((bar, i, all) => i === 0 || at[bar] !== at[all[i - 1] ?? 0])
  return {
    at: Float64Array.from(order, (bar) => at[bar] ?? 0),
    price: BigInt64Array.from(order, (bar) => price[bar] ?? 0n),
  }
}

function judged({ at, price }: Prices): History {
  const value = new Float64Array(at.length)
  const sigmas = new Float64Array(at.length)
  let seen = FIRST_VOLATILITY
  for (let bar = 0; bar < at.length; bar++) {
    const known = price[bar] as Price
    seen = observe(seen, known, at[bar] as Instant)
    value[bar] = priceAsNumber(known)
    sigmas[bar] = sigma(seen)
  }
  return { at, price, value, sigma: sigmas, leadMs: failsafeLead(barGaps(at)) }
}

/** The usual time between bars replaces the gaps between passes: holes in a history are not outages of a scheduler. */
function barGaps(at: Float64Array): number[] {
  const gaps = Float64Array.from(at.subarray(1, 1_001), (instant, i) => instant - (at[i] ?? 0)).sort()
  const usual = gaps[Math.floor(gaps.length / 2)] ?? 0
  return [usual, usual]
}
