// A process of the simulation: lives the seeds it is sent, one after the other.

import type { Action } from './action.ts'
import { type Crashes, noCrashes } from './crash/crashes.ts'
import { liveWithCrashes, replayWithCrashes } from './crash/crashing-life.ts'
import { Failure, type Lived, live, replay } from './life.ts'
import { shrink } from './shrink.ts'

export type Task = { seed: number; steps: number | null; isCrashing: boolean; shrinks: boolean }
export type Finished =
  | { lived: Lived; crashes: Crashes; ms: number }
  | { seed: number; failure: string; isCrashing: boolean; trace: readonly Action[]; isShrunk: boolean }

const SHRINK_BUDGET_MS = 30_000

process.on('message', async (task: Task) => {
  process.send?.(await perform(task))
})

async function perform({ seed, steps, isCrashing, shrinks }: Task): Promise<Finished> {
  const begun = performance.now()
  try {
    if (!isCrashing) {
      const lived = await live(seed, { steps })
      return { lived, crashes: noCrashes(), ms: performance.now() - begun }
    }
    const lived = await liveWithCrashes(seed, { steps })
    return { lived, crashes: lived.crashes, ms: performance.now() - begun }
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    const failed = { seed, failure: error.message, isCrashing }
    if (!shrinks) return { ...failed, trace: error.trace, isShrunk: false }
    const again = (trace: readonly Action[]) =>
      isCrashing ? replayWithCrashes(seed, trace) : replay(seed, trace)
    const trace = await shrink(error.trace, error, { replay: again, budgetMs: SHRINK_BUDGET_MS })
    return { ...failed, trace: trace ?? error.trace, isShrunk: trace !== null }
  }
}
