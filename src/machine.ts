// The clock, randomness and the names of user and machine as one value, for code that must not read them itself.

import { randomBytes, randomUUID } from 'node:crypto'
import { hostname, userInfo } from 'node:os'
import type { Instant } from './core/time.ts'

export type Machine = {
  clock: () => Instant
  random: (bytes: number) => Uint8Array
  uuid: () => string
  osUser: () => string
  /** The name of this machine among those of one service. */
  host: () => string
}

export const machine: Machine = {
  clock: () => Date.now() as Instant,
  random: pooled(),
  uuid: () => randomUUID(),
  osUser: () => {
    try {
      return userInfo().username
    } catch {
      // A container may run under a uid that has no name.
      return `uid ${process.getuid?.() ?? 'unknown'}`
    }
  },
  host: () => hostname(),
}

/** A machine whose clock stays at a time until it is set: for accelerated time. */
export function machineAt(start: Instant): { machine: Machine; setClock: (now: Instant) => void } {
  let now = start
  return {
    machine: { ...machine, clock: () => now },
    setClock: (to) => {
      now = to
    },
  }
}

/** Random bytes drawn in bulk: one system call serves many ids of a pass. No byte is used twice. */
function pooled(): Machine['random'] {
  let pool = new Uint8Array()
  return (bytes) => {
    if (bytes > pool.length) pool = randomBytes(Math.max(bytes, POOL_BYTES))
    const drawn = pool.subarray(0, bytes)
    pool = pool.subarray(bytes)
    return drawn
  }
}

const POOL_BYTES = 4_096
