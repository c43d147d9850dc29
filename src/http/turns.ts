// Fairness: a crowd of calls, by mistake or on purpose, must not delay the calls of others. Two mechanisms share out
// common resources: here, the turns of the event loop among keys, which also limits the calls of a key at once; and the
// lanes of the write queue among tenants (src/store/sqlite/file/write-queue.ts), or, on a server, the connections
// (src/store/postgres/server/pool.ts). docs/decisions/commits.md#every-key-gets-its-turn has the reasons.
// Below them are three limits for one tenant: long reads one after the other, one test of a webhook at a time, and the
// rate that an operator may set. Callers without a key are for a proxy to limit.

import type { Instant } from '../core/time.ts'
import { createLanes } from '../lanes.ts'
import { Refusal } from './error-codes.ts'

// The order in which keys' calls are handled: calls are handled one by one until those of one turn of the event loop
// have taken too long. The rest wait for the next turn, and the keys take turns.

/** The most calls of one key at once, under way or waiting: more than any connection pool makes. */
export const CALLS_PER_KEY_MAX = 1_024
/** After this much handling, a turn of the event loop ends, so that sockets, timers and /healthz get theirs. */
const TURN_MS = 10

export type Turn = {
  /** Resolves when the call may be handled, with whether it had to let others go first, in an earlier turn. */
  come: () => Promise<boolean>
  leave: () => void
}

/** Gives each call its turn. Throws a Refusal: 429, when the key already has `callsPerKey` calls. */
export function createTurns(callsPerKey: number): (keyId: string) => Turn {
  const waiting = createLanes<() => void>()
  const keys = new Map<string, { calls: number; wait: (go: () => void) => void }>()
  /** When handling must stop in this turn of the event loop; null before its first call. */
  let endsAt: number | null = null
  let postponed = 0

  /**
   * One of these runs for each waiting call. Node runs all promises between two of them, so each call runs as far as it
   * can without waiting for I/O, and is measured, before the next one starts.
   */
  function letOne(): void {
    const now = performance.now()
    if (endsAt === null) {
      endsAt = now + TURN_MS
      setImmediate(() => {
        endsAt = null
      })
    }
    if (now < endsAt) waiting.take()?.()
    else {
      postponed += 1
      setImmediate(letOne)
    }
  }

  return (keyId) => {
    const key = keys.get(keyId) ?? { calls: 0, wait: waiting.open() }
    keys.set(keyId, key)
    if (key.calls >= callsPerKey) {
      throw new Refusal('too_many_calls', `Too many calls at once: at most ${callsPerKey} for each key.`, {
        'retry-after': '1',
      })
    }
    key.calls += 1
    return {
      come() {
        const before = postponed
        setImmediate(letOne)
        return new Promise((go) => key.wait(() => go(postponed !== before)))
      },
      leave() {
        key.calls -= 1
      },
    }
  }
}

// Slow work, done one piece at a time for each tenant. A long read already shares the event loop with everything else,
// and each name look-up holds a socket. Done all at once, one tenant's crowd of them would starve the others.

/** The most that may wait for a tenant's turn: a year of months and their users. */
const WAITING_MAX = 32

/** Runs `work` after all slow work that the tenant asked for earlier. Throws a Refusal: 429, when too much waits. */
export const createOneAtATime = () =>
  createLines(WAITING_MAX, `Too many slow calls at once: at most ${WAITING_MAX} wait for their turn.`)

/** Runs `work` at once, unless such work of the tenant is under way. Throws a Refusal: 429. */
export const createOnlyOne = () => createLines(0, 'A test of this webhook is under way.')

function createLines(waitingMax: number, refusal: string) {
  const lines = new Map<number, { length: number; last: Promise<unknown> }>()
  return async <T>(tenantId: number, work: () => Promise<T>): Promise<T> => {
    const line = lines.get(tenantId) ?? { length: 0, last: Promise.resolve() }
    if (line.length > waitingMax) throw new Refusal('too_many_calls', refusal, { 'retry-after': '1' })
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

/** A token bucket per key: `perSecond` requests a second, and as many at once. Throws a Refusal: 429. */
export function createRateLimit(perSecond: number): (keyId: string, now: Instant) => void {
  const buckets = new Map<string, { tokens: number; at: Instant }>()
  return (keyId, now) => {
    const bucket = buckets.get(keyId) ?? { tokens: perSecond, at: now }
    const elapsed = Math.max(0, now - bucket.at) / 1000
    const tokens = Math.min(perSecond, bucket.tokens + elapsed * perSecond)
    if (tokens < 1) {
      buckets.set(keyId, { tokens, at: now })
      const wait = Math.ceil((1 - tokens) / perSecond)
      throw new Refusal('rate_limited', 'Too many requests.', { 'retry-after': String(wait) })
    }
    buckets.set(keyId, { tokens: tokens - 1, at: now })
  }
}
