// A limit on waits: what hangs is told by its name, and nothing is waited for without end.

import { setTimeout as pause } from 'node:timers/promises'

/** What `work` resolves with. Throws with `what` when that takes longer. */
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
 * Looks until it is so, and no more than half of the time; what a look throws counts as no. Throws with `what`, and
 * what the last look threw.
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
