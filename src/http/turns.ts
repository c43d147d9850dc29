// Fairness: one crowd of calls, by mistake or on purpose, must not delay the calls of others. Work waits in turns at
// the places below, along the way of a call. Each shares out something else, among those who are known at that point,
// so none can stand in for another. docs/decisions/commits.md#every-key-gets-its-turn has the reasons.
//
// - Gates (here): at most 32 calls are begun in a turn of the event loop; connections take turns. Against many
//   connections with no valid key, which would keep new connections out. test/http/turns.test.ts,
//   test/attack/wrong-keys.heavy.test.ts.
// - Turns (here): 10 ms of handling in a turn of the event loop; keys take turns, with 1,024 calls each at most.
//   Against one key at full speed, and against calls that take long. test/http/turns.test.ts, test/attack/flood.ts.
// - Large answers (here): one in a turn of the event loop, of those for which nobody needs a key. Against a crowd that
//   asks for the description of the API. test/http/turns.test.ts.
// - The rate limit (here): calls a second for each key, where the operator wants one. It makes nobody wait: a call too
//   many is refused. test/clock/comparisons.test.ts.
// - Slow work (here): one long read or name look-up of a tenant at a time. Against a partner that asks for a year of
//   reports at once. test/attack/crowds.long.test.ts.
// - What waits for somebody else (here): one test of a webhook of a tenant at a time. It makes nobody wait: a second
//   one is refused. Against a receiver that never answers. test/webhook/deliveries.test.ts.
// - The write queue of a file (src/store/sqlite/file/write-queue.ts): one writer, and 64 writes or 50 ms in a commit;
//   tenants take turns. Against a flood of one tenant's writes. test/store/queues.test.ts, test/attack/flood.ts.
// - The lock of a file (beside that queue): a process that commits without a break leaves it free for 3 ms. Against a
//   pass that keeps confirmations out. test/store/locks.process.test.ts.
// - The connections to a server (src/store/postgres/server/pool.ts): ten a process; a tenant takes one only while more
//   are free than it holds. Against calls of one tenant that all wait for a locked row.
//   test/store/postgres-sessions.server.test.ts, test/store/queues.test.ts.
//
// Gates, turns and the write queue are lanes (src/lanes.ts). The places at a server are not: who goes next depends
// there on what each holds, and a lane that stands still is refused.

import type { Instant } from '../core/time.ts'
import { createLanes } from '../lanes.ts'
import { Refusal } from './error-codes.ts'

// Which key's call is handled next. While there is little to do, every call is handled as it comes. One goes on after
// the other, each as far as it gets without waiting for the outside. When those of one turn of the event loop take too
// long, the rest wait, and the keys take turns.

/** The most calls of one key at once, under way or waiting: more than any connection pool makes. */
export const CALLS_PER_KEY_MAX = 1_024
/** After this much handling, a turn of the event loop ends, so that sockets, timers and /healthz get theirs. */
const TURN_MS = 10

export type Turn = {
  /**
   * Asked when there is something to handle. Resolves when that may be done, with whether it is another turn of the
   * event loop by then; null when it may be done at once. Light ones go on together, and so do their answers: a client
   * on the same machine would otherwise be woken for each.
   */
  come: (call: { isLight: boolean }) => Promise<boolean> | null
  /** Must be called once the call is answered. */
  leave: () => void
}

/** Gives each call its turn. Throws a Refusal: 429, when the key already has `callsPerKey` calls. */
export function createTurns(callsPerKey: number): (keyId: string) => Turn {
  const waiting = createLanes<() => void>()
  /** For every key that has called. */
  const keys = new Map<string, { calls: number; wait: (go: () => void) => void }>()
  /** When handling must stop in this turn of the event loop; null before its first call. */
  let endsAt: number | null = null
  let turns = 0
  /** Whether a call goes on just now. Its work may be several promises away, and would not be measured by then. */
  let isOnItsWay = false

  function mayGoOn(): boolean {
    if (isOnItsWay) return false
    if (endsAt === null) {
      endsAt = performance.now() + TURN_MS
      setImmediate(endTurn)
    }
    return performance.now() < endsAt
  }

  function endTurn(): void {
    endsAt = null
    turns += 1
    goOn()
  }

  function goOn(): void {
    if (waiting.size === 0 || !mayGoOn()) return
    letOne()
    waiting.take()?.()
  }

  function letOne(): void {
    isOnItsWay = true
    // A tick that is asked for by a promise comes when no promise has anything left to do.
    queueMicrotask(() => process.nextTick(isDone))
  }

  function isDone(): void {
    isOnItsWay = false
    goOn()
  }

  function come(isLight: boolean, wait: (go: () => void) => void): Promise<boolean> | null {
    const asked = turns
    if (waiting.size > 0 || !mayGoOn()) return new Promise((go) => wait(() => go(turns !== asked)))
    if (!isLight) letOne()
    return null
  }

  function known(keyId: string) {
    const key = keys.get(keyId)
    if (key) return key
    const added = { calls: 0, wait: waiting.open() }
    keys.set(keyId, added)
    return added
  }

  return (keyId) => {
    const key = known(keyId)
    if (key.calls >= callsPerKey) {
      throw new Refusal('too_many_calls', `Too many calls at once: at most ${callsPerKey} for each key.`, {
        'retry-after': '1',
      })
    }
    key.calls += 1
    return {
      come: ({ isLight }) => come(isLight, key.wait),
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

/**
 * Runs `work` after all slow work that the tenant asked for earlier. Throws a Refusal: 429, when too much is waiting.
 */
export function createOneAtATime(): <T>(tenantId: number, work: () => Promise<T>) => Promise<T> {
  const lines = new Map<number, { length: number; last: Promise<unknown> }>()
  return async (tenantId, work) => {
    const line = lines.get(tenantId) ?? { length: 0, last: Promise.resolve() }
    if (line.length > WAITING_MAX) {
      throw new Refusal(
        'too_many_calls',
        `Too many slow calls at once: at most ${WAITING_MAX} wait for their turn.`,
        {
          'retry-after': '1',
        },
      )
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

/** Runs `work` at once, unless such work of the tenant is under way. Throws a Refusal: 429. */
export function createOnlyOne(): <T>(tenantId: number, work: () => Promise<T>) => Promise<T> {
  const working = new Set<number>()
  return async (tenantId, work) => {
    if (working.has(tenantId))
      throw new Refusal('too_many_calls', 'A test of this webhook is under way.', { 'retry-after': '1' })
    working.add(tenantId)
    try {
      return await work()
    } finally {
      working.delete(tenantId)
    }
  }
}

// How many calls are begun in one turn of the event loop. The system hands over one new connection per turn, so turns
// must stay short. Otherwise a few busy connections, with or without a valid key, would keep everybody else from
// connecting.

/** A few milliseconds of work. */
export const CALLS_PER_TURN = 32

/**
 * Gives each connection a gate, which begins its calls as they come. Calls beyond that number begin in later turns,
 * with the connections taking turns.
 */
export function createGates(): () => (begin: () => void) => void {
  const waiting = createLanes<() => void>()
  let begun = 0

  function enter(begin: () => void): void {
    if (begun === 0) setImmediate(nextTurn)
    begun += 1
    begin()
  }

  function nextTurn(): void {
    begun = 0
    while (begun < CALLS_PER_TURN) {
      const begin = waiting.take()
      if (!begin) return
      enter(begin)
    }
  }

  return () => {
    const wait = waiting.open()
    return (begin) => {
      if (waiting.size === 0 && begun < CALLS_PER_TURN) enter(begin)
      else wait(begin)
    }
  }
}

// Large answers that anybody may ask for: the description of the API, and the files of its page.

let large: Promise<void> = Promise.resolve()

/**
 * Resolves once in each turn of the event loop: handing half a megabyte to a socket takes as long as all calls of a
 * turn may take.
 */
export function turnForLarge(): Promise<void> {
  large = large.then(() => new Promise((resolve) => setImmediate(resolve)))
  return large
}

// The rate limit: how many requests a second each key may make.

/** A token bucket per key: `perSecond` requests a second, and as many at once. Throws a Refusal: 429. */
export function createRateLimit(perSecond: number): (keyId: string, now: Instant) => void {
  const buckets = new Map<string, { tokens: number; at: Instant }>()
  return (keyId, now) => {
    const bucket = buckets.get(keyId) ?? { tokens: perSecond, at: now }
    const elapsed = Math.max(0, now - bucket.at) / 1000
    const tokens = Math.min(perSecond, bucket.tokens + elapsed * perSecond)
    if (tokens < 1) {
      buckets.set(keyId, { tokens, at: now })
      const wait = Math.max(1, Math.ceil((1 - tokens) / perSecond))
      throw new Refusal('rate_limited', 'Too many requests.', { 'retry-after': String(wait) })
    }
    buckets.set(keyId, { tokens: tokens - 1, at: now })
  }
}
