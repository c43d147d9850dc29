// How many wrong tokens of a network are too many, and when that is worth a warning.

import { type Instant, MINUTE_MS } from '../../core/instant.ts'

/** Wrong tokens in a minute from one network; behind a proxy on this machine, from all of them together. */
export const WRONG_TOKENS_MAX = 20
const NETWORKS_MAX = 10_000

/**
 * Counts wrong tokens by their origin, minute by minute. `onMany` is called at most once a minute, however many
 * networks guess: its line must not fill a disk.
 */
export function createWrongTokens(clock: () => Instant, onMany: (() => void) | undefined) {
  const wrong = new Map<string, number>()
  let begunAt = clock()
  let isTold = false
  const renew = (): void => {
    if (Math.abs(clock() - begunAt) < MINUTE_MS) return
    wrong.clear()
    isTold = false
    begunAt = clock()
  }
  // A crowd too large to be told apart shares one count.
  const known = (whose: string): string => (wrong.has(whose) || wrong.size < NETWORKS_MAX ? whose : 'others')
  return {
    /** Counts one more, and says whether there have been too many. */
    areTooMany(whose: string): boolean {
      renew()
      const name = known(whose)
      const count = (wrong.get(name) ?? 0) + 1
      wrong.set(name, count)
      if (count <= WRONG_TOKENS_MAX) return false
      if (!isTold) onMany?.()
      isTold = true
      return true
    },
  }
}
