// How many wrong tokens lock a network out, and for how long.

import { type Instant, MINUTE_MS } from '../../core/instant.ts'

/** Wrong tokens in a minute from one network; behind a proxy on this machine, from all of them together. */
export const WRONG_TOKENS_MAX = 20
const ADDRESSES_MAX = 10_000

/** Counts wrong tokens by their origin, minute by minute. */
export function createAttempts(clock: () => Instant, onLocked: (() => void) | undefined) {
  const wrong = new Map<string, number>()
  let begunAt = clock()
  const renew = (): void => {
    if (Math.abs(clock() - begunAt) < MINUTE_MS) return
    wrong.clear()
    begunAt = clock()
  }
  // A crowd too large to be told apart shares one count.
  const known = (whose: string): string => (wrong.has(whose) || wrong.size < ADDRESSES_MAX ? whose : 'others')
  return {
    areUp(whose: string): boolean {
      renew()
      return (wrong.get(known(whose)) ?? 0) >= WRONG_TOKENS_MAX
    },
    noteWrong(whose: string): void {
      const count = (wrong.get(known(whose)) ?? 0) + 1
      wrong.set(known(whose), count)
      if (count === WRONG_TOKENS_MAX) onLocked?.()
    },
  }
}
