// Time limits on waits: a hanging operation is reported by its name, and no wait is endless.

import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as pause, setTimeout as wait } from 'node:timers/promises'

/** The result of `work`. Throws with `what` when that takes longer. */
export async function within<T>(ms: number, what: string, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, over])
  } finally {
    clearTimeout(timer)
  }
}

const LOOK_AGAIN_MS = 20

/**
 * Polls until the condition holds, for no more than half of the time; an error of a look counts as no. Throws with
 * `what`, and the error of the last look.
 */
export async function until(ms: number, what: string, isSo: () => Promise<unknown> | unknown): Promise<void> {
  const from = performance.now()
  let cause: unknown
  for (;;) {
    const looked = performance.now()
    try {
      if (await within(ms, what, (async () => isSo())())) return
    } catch (error) {
      cause = error
    }
    const now = performance.now()
    if (now - from > ms) throw new Error(`${what}: not within ${ms} ms`, { cause })
    await pause(Math.max(LOOK_AGAIN_MS, now - looked))
  }
}

// Waits for a number that somebody else changes: of connections, say, whose other side is slow.

const LOOK_MS = 250
const SAME_LOOKS = 4

/** Resolves when the number has been constant for a second. */
export async function settled(count: () => number): Promise<void> {
  let before = -1
  for (let same = 0; same < SAME_LOOKS; same = count() === before ? same + 1 : 0) {
    before = count()
    await wait(LOOK_MS)
  }
}

// The duration of some work, and how much of it the event loop was blocked.

type Watched<T> = { value: T; tookMs: number; stallMs: number }

/** Runs `work`; `stallMs` is the longest time in which no timer ran. */
export async function watched<T>(work: () => Promise<T>): Promise<Watched<T>> {
  let stallMs = 0
  let last = performance.now()
  const look = (): void => {
    const now = performance.now()
    stallMs = Math.max(stallMs, now - last)
    last = now
  }
  const timer = setInterval(look, 1)
  const from = performance.now()
  const value = await work()
  look()
  clearInterval(timer)
  return { value, tookMs: performance.now() - from, stallMs }
}

// A port of loopback on which nothing listens.

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

// Measurements of time and memory, on machines that have other work to do.

const MEASUREMENTS_MAX = 3

/** Measures until a result is fine, three times at most: slowness must repeat to count. Answers the last result. */
export async function measure<T>(take: () => Promise<T>, isFine: (taken: T) => boolean): Promise<T> {
  let taken = await take()
  for (let n = 1; n < MEASUREMENTS_MAX && !isFine(taken); n++) taken = await take()
  return taken
}
