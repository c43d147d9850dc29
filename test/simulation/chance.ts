// Chance that a seed repeats.

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

/** The generator mulberry32. */
export function chanceOf(seed: number): Chance {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
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
