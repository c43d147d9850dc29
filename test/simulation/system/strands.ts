// Random bytes of a seed that are the same for the same deed, whatever is done beside it and in whatever order: two
// stores that are asked the same make the same ids.

import { AsyncLocalStorage } from 'node:async_hooks'
import { type Chance, chanceOf } from '../chance.ts'

export type Strands = {
  bytes: Chance['bytes']
  /** What is done inside the answer draws from a chance of its own: that of this place in the order of asking. */
  strand: () => <T>(work: () => T) => T
}

/** Odd, so that no two strands of a seed are the same one. */
const STEP = 0x9e3779b1

export function createStrands(seed: number): Strands {
  const own = new AsyncLocalStorage<Chance>()
  const rest = chanceOf(seed)
  let last = 0
  return {
    bytes: (count) => (own.getStore() ?? rest).bytes(count),
    strand() {
      last += 1
      const chance = chanceOf((seed + Math.imul(last, STEP)) >>> 0)
      return (work) => own.run(chance, work)
    },
  }
}
