// A process of the simulation: lives the seeds it is sent, one after the other.

import { type Action, shrink } from './action.ts'
import { type Crashes, liveWithCrashes, noCrashes, replayWithCrashes } from './crash/crashing-life.ts'
import { Failure, inThisProcess, type Lived, live, replay } from './life.ts'
import type { StoreName } from './options.ts'
import { onBoth } from './twins.ts'

export type Task = {
  seed: number
  steps: number | null
  isCrashing: boolean
  shrinks: boolean
  /** The time it may take, in milliseconds: the rest of the run. */
  msLeft: number
  store: StoreName
  /** The address of a server for databases, if the store requires one. */
  server: string | null
}
export type Finished =
  | { lived: Lived; crashes: Crashes }
  | { seed: number; failure: string; isCrashing: boolean; trace: readonly Action[]; isShrunk: boolean }

const SHRINK_BUDGET_MS = 30_000

process.on('message', async (task: Task) => {
  process.send?.(await perform(task))
})

async function perform(task: Task): Promise<Finished> {
  const { seed, isCrashing, shrinks } = task
  try {
    return await liveIt(task)
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    const failed = { seed, failure: error.message, isCrashing }
    if (!shrinks) return { ...failed, trace: error.trace, isShrunk: false }
    const again = (trace: readonly Action[]) =>
      isCrashing ? replayWithCrashes(seed, trace, task.server) : replay(seed, trace, stageOf(task))
    const trace = await shrink(error.trace, error, { replay: again, budgetMs: SHRINK_BUDGET_MS })
    return { ...failed, trace: trace ?? error.trace, isShrunk: trace !== null }
  }
}

async function liveIt(task: Task): Promise<{ lived: Lived; crashes: Crashes }> {
  const { seed, steps, isCrashing, server, msLeft } = task
  const end = performance.now() + msLeft
  const isOver = () => performance.now() > end
  if (!isCrashing)
    return { lived: await live(seed, { steps, isOver, open: stageOf(task) }), crashes: noCrashes() }
  const lived = await liveWithCrashes(seed, { steps, isOver, server })
  return { lived, crashes: lived.crashes }
}

const stageOf = ({ store, server }: Task) =>
  store === 'both' && server !== null ? onBoth(server) : inThisProcess(server)
