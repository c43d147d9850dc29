// One turn of load on a server: what its callers saw, and what it cost the server.

import { join } from 'node:path'
import { type Helper, startHelper } from './helper.ts'
import type { LoadDone, LoadJob } from './load.ts'
import { cpuUsOf, databaseCpuUs, known, residentMib } from './process-cost.ts'
import type { Figures, Stage } from './row.ts'

/** A server that is loaded: where it listens, the process that answers, and the database behind it, if it has one. */
export type Server = { url: string; pid: number; database?: string }
export type Load = (
  server: Server,
  job: Omit<LoadJob, 'url' | 'keepsTimes'> & {
    /** Is handed what each call took, in milliseconds. */
    onTimes?: (ms: readonly number[]) => void
  },
) => Promise<Figures>

/** Starts the process that makes the calls; it keeps a core of its own busy. */
export async function startLoad(stage: Pick<Stage, 'after'>): Promise<Load> {
  const helper: Helper<LoadJob, LoadDone> = await startHelper(stage, join(import.meta.dirname, 'load.ts'))
  return async ({ url, pid, database = '' }, { onTimes, ...job }) => {
    const cpuBefore = cpuUsOf(pid)
    const databaseBefore = databaseCpuUs(database)
    const done = await helper.ask({ ...job, url, keepsTimes: onTimes !== undefined })
    const { answered, errors, seconds, p50Ms, p99Ms } = done
    onTimes?.(done.timesMs)
    const cpuUs = cpuUsOf(pid) - cpuBefore
    return known({
      per_second: answered / seconds,
      p50_ms: p50Ms,
      p99_ms: p99Ms,
      cpu_us: cpuUs / answered,
      busy: cpuUs / seconds / 1e6,
      server_us: (databaseCpuUs(database) - databaseBefore) / answered,
      resident_mib: residentMib(pid),
      errors,
    })
  }
}
