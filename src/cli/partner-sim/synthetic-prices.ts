// A synthetic price path: made up, repeatable, and not a forecast of anything.

import { CENT, type Price } from '../../core/money.ts'
import { seededRandom } from '../../core/seeded-random.ts'

/** The same numbers for the same seed and stream, each in [0, 1). Never for anything secret. */
export type Chance = () => number

/** A generator of its own for each stream, so that drawing from one does not affect the others. */
export const createChance = (seed: number, stream: string): Chance =>
  seededRandom(
    [...stream].reduce((sum, letter) => Math.imul(sum ^ (letter.codePointAt(0) ?? 0), 0x01000193), seed),
  )

const FIRST_PRICE_USD = 64_000
const MINUTES_PER_YEAR = 365.25 * 24 * 60
/** A usual year of bitcoin; no drift, so that the path favours neither early nor late buying. */
const VOLATILITY_PER_YEAR = 0.5
/** How far volatility wanders (standard deviation of its logarithm) and how long it remembers. */
const WANDER = 0.4
const WANDER_HALF_LIFE_MINUTES = 36 * 60

/**
 * One price a minute: a geometric random walk whose volatility wanders around a mean. A pure function of the seed.
 * Floats are fine here: this is where the price comes from, and it leaves as exact cents.
 */
export function syntheticPath(seed: number, minutes: number): Price[] {
  const chance = createChance(seed, 'prices')
  const usual = VOLATILITY_PER_YEAR / Math.sqrt(MINUTES_PER_YEAR)
  const memory = 2 ** (-1 / WANDER_HALF_LIFE_MINUTES)
  const shock = WANDER * Math.sqrt(1 - memory ** 2)
  let wander = WANDER * normal(chance)
  let logPrice = Math.log(FIRST_PRICE_USD)
  return Array.from({ length: minutes }, () => {
    const price = BigInt(Math.max(1, Math.round(Math.exp(logPrice) * 100))) * CENT
    wander = memory * wander + shock * normal(chance)
    const deviation = usual * Math.exp(wander)
    logPrice += deviation * normal(chance) - deviation ** 2 / 2
    return price as Price
  })
}

/** A standard normal number (Box and Muller 1958). */
function normal(chance: Chance): number {
  return Math.sqrt(-2 * Math.log(1 - chance())) * Math.cos(2 * Math.PI * chance())
}
