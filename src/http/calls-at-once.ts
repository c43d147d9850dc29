// Decides which key's call is handled next. While there is little to do, every call is handled as it comes. When the
// calls of one turn of the event loop take too long, the rest wait, and the keys take turns, so that one key's crowd of
// calls delays nobody else's.

import { createLanes } from '../lanes.ts'
import { Refusal } from './refusal.ts'

/** The most calls of one key at once, under way or waiting: more than any connection pool makes. */
export const CALLS_PER_KEY_MAX = 1_024
/** After this much handling, a turn of the event loop ends, so that sockets, timers and /healthz get theirs. */
const TURN_MS = 10

export type Turn = {
  /** Resolves when the call may be handled; null when that is at once. */
  ready: Promise<void> | null
  /** To be called when it is answered. */
  leave: () => void
}

/** Gives each call its turn. Throws a Refusal: 429, when the key has `callsPerKey` calls here already. */
export function createTurns(callsPerKey: number): (keyId: string) => Turn {
  const waiting = createLanes<() => void>()
  /** For every key that has called. */
  const keys = new Map<string, { calls: number; wait: (go: () => void) => void }>()
  /** When the handling of this turn of the event loop is to end; null before its first call. */
  let endsAt: number | null = null

  function open(): void {
    endsAt = performance.now() + TURN_MS
    setImmediate(next)
  }

  async function next(): Promise<void> {
    endsAt = null
    if (waiting.size > 0) open()
    while (endsAt !== null && performance.now() < endsAt) {
      const go = waiting.take()
      if (!go) break
      go()
      // That call runs first, as far as it gets without waiting.
      await null
    }
  }

  function mayGoOn(): boolean {
    if (endsAt === null) open()
    return waiting.size === 0 && endsAt !== null && performance.now() < endsAt
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
      throw new Refusal(429, `Too many calls at once: at most ${callsPerKey} for each key.`, {
        'retry-after': '1',
      })
    }
    key.calls += 1
    return {
      ready: mayGoOn() ? null : new Promise(key.wait),
      leave() {
        key.calls -= 1
      },
    }
  }
}
