// One turn of a hand-written loop on a database of ours: the floor of a transaction.

import { join } from 'node:path'
import type { Raw, RawDone, RawJob, StoreName } from './backend.ts'
import { startHelper } from './helper.ts'
import { databaseCpuUs, known } from './process-cost.ts'
import type { Stage } from './row.ts'

/** Starts the process that runs the loops. */
export async function startRaw(stage: Pick<Stage, 'after'>, store: StoreName): Promise<Raw> {
  const script = join(import.meta.dirname, `floors/${store}/raw.ts`)
  const helper = await startHelper<RawJob, RawDone>(stage, script)
  return async (job) => {
    const before = databaseCpuUs(job.database)
    const { ms, cpuMs } = await helper.ask(job)
    return known({
      per_second: (1000 * job.count) / ms,
      ms: ms / job.count,
      cpu_us: (1000 * cpuMs) / job.count,
      server_us: (databaseCpuUs(job.database) - before) / job.count,
    })
  }
}
