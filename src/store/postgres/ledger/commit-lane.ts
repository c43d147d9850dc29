// Jobs that share a transaction: those that arrive while one transaction is running make up the next.

import { COMMIT_SHARE_MAX, gather } from '../../commit-share.ts'

/** What became of one job of a batch whose transaction was committed. */
export type Outcome<A> = { ok: true; value: A } | { ok: false; error: unknown }

/**
 * One batch at a time. `run` returns one outcome per job, in the order of the jobs; if it throws, all jobs throw that.
 */
export function createLane<J, A>(
  run: (jobs: readonly J[]) => Promise<readonly Outcome<A>[]>,
): (job: J) => Promise<A> {
  const waiting: { job: J; resolve: (value: A) => void; reject: (error: unknown) => void }[] = []
  const queue = {
    get size() {
      return waiting.length
    },
  }
  let draining = false

  async function drain(): Promise<void> {
    while (waiting.length > 0) {
      await gather(queue)
      const batch = waiting.splice(0, COMMIT_SHARE_MAX)
      try {
        const outcomes = await run(batch.map(({ job }) => job))
        for (const [i, { resolve, reject }] of batch.entries()) {
          const outcome = outcomes[i]
          if (outcome?.ok) resolve(outcome.value)
          else reject(outcome?.error)
        }
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    draining = false
  }

  return (job) =>
    new Promise((resolve, reject) => {
      waiting.push({ job, resolve, reject })
      if (draining) return
      draining = true
      // Not at once, so that the other calls of this turn of the event loop can join the same transaction.
      setImmediate(drain)
    })
}
