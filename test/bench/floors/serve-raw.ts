// What the loops on a file and on a server have in common: a job at a time is prepared, measured and ended.

import type { RawDone, RawJob } from '../backend.ts'
import { serveJobs } from '../helper.ts'

/** A job that is ready. Only `run` is measured. */
export type RawRun = { run: () => void | Promise<void>; close: () => void | Promise<void> }

export function serveRaw(open: (job: RawJob) => RawRun | Promise<RawRun>): void {
  serveJobs(async (job: RawJob): Promise<RawDone> => {
    const { run, close } = await open(job)
    try {
      const before = process.cpuUsage()
      const begun = performance.now()
      await run()
      const ms = performance.now() - begun
      const { user, system } = process.cpuUsage(before)
      return { ms, cpuMs: (user + system) / 1000 }
    } finally {
      await close()
    }
  })
}
