// One turn of a hand-written loop on a database of ours: the floor of a transaction.

import { join } from 'node:path'
import type { RawDone, RawJob } from './floors/raw.ts'
import { startHelper } from './helper.ts'
import type { Figures, Stage } from './row.ts'

export type Raw = (job: RawJob) => Promise<Figures>

/** Starts the process that runs the loops. */
export async function startRaw(stage: Pick<Stage, 'after'>): Promise<Raw> {
  const script = join(import.meta.dirname, 'floors/raw.ts')
  const helper = await startHelper<RawJob, RawDone>(stage, script)
  return async (job) => {
    const { ms, cpuMs } = await helper.ask(job)
    return { per_second: (1000 * job.count) / ms, ms: ms / job.count, cpu_us: (1000 * cpuMs) / job.count }
  }
}
