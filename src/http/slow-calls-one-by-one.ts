// Slow work, done one piece at a time for each tenant: a long read already shares the event loop with everything else,
// and each name look-up holds a socket. Done all at once, one tenant's crowd of them would leave the others nothing.

import { Refusal } from './refusal.ts'

/** The most that may wait for a tenant's turn: a year of months and their users. */
const WAITING_MAX = 32

/**
 * Runs `work` when everything that the tenant asked for before is done. Throws a Refusal: 429, when too much is
 * waiting.
 */
export function createOneAtATime(): <T>(tenantId: number, work: () => Promise<T>) => Promise<T> {
  const lines = new Map<number, { length: number; last: Promise<unknown> }>()
  return async (tenantId, work) => {
    const line = lines.get(tenantId) ?? { length: 0, last: Promise.resolve() }
    if (line.length > WAITING_MAX) {
      throw new Refusal(429, `Too many slow calls at once: at most ${WAITING_MAX} wait for their turn.`, {
        'retry-after': '1',
      })
    }
    const mine = line.last.then(work)
    line.last = mine.catch(() => {})
    line.length += 1
    lines.set(tenantId, line)
    try {
      return await mine
    } finally {
      line.length -= 1
      if (line.length === 0) lines.delete(tenantId)
    }
  }
}
