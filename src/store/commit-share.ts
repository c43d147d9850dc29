// How writes that arrive together come to share a commit.

/** The most writes that share a commit: enough to spread the cost of a sync. */
export const COMMIT_SHARE_MAX = 64
/** How long writes that arrive together wait for more writes: a fraction of a sync, which they then share. */
export const GATHER_MS = 2
/**
 * A call reaches its write after a few turns of the event loop: after so many turns without a new write, the wait ends.
 */
const IDLE_TURNS_MAX = 2

export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Waits while turns of the event loop bring further writes to a queue. A write that came alone waits for nobody. */
export async function gather(queue: { readonly size: number }): Promise<void> {
  const end = performance.now() + GATHER_MS
  let idleTurns = 0
  for (let seen = 1; queue.size > 1 && queue.size < COMMIT_SHARE_MAX && idleTurns < IDLE_TURNS_MAX; ) {
    if (performance.now() >= end) return
    idleTurns = queue.size > seen ? 0 : idleTurns + 1
    seen = queue.size
    await nextTurn()
  }
}
