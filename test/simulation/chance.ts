// Random numbers that a seed repeats.

import { seededRandom } from '../../src/engine/backtest.ts'

export type Chance = {
  /** From 0 up to, not including, 1. */
  next: () => number
  happens: (probability: number) => boolean
  /** Whole, both ends included. */
  between: (low: number, high: number) => number
  pick: <T>(of: readonly T[]) => T
  /** Random bytes of this seed. */
  bytes: (count: number) => Uint8Array
}

export function chanceOf(seed: number): Chance {
  const next = seededRandom(seed)
  const between = (low: number, high: number) => low + Math.floor(next() * (high - low + 1))
  return {
    next,
    between,
    happens: (probability) => next() < probability,
    pick: (of) => {
      const picked = of[between(0, of.length - 1)]
      if (picked === undefined) throw new Error('nothing to pick from')
      return picked
    },
    bytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(next() * 256)),
  }
}
