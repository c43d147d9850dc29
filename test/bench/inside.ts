// A process that measures our passes that fire nothing inside itself: the start of a tick would hide them.

import { databaseOf } from '../../src/cli/context.ts'
import { price } from '../../src/core/money.ts'
import { runPass } from '../../src/engine/pass.ts'
import { machine } from '../../src/machine.ts'
import { serveJobs } from './helper.ts'
import { type Figures, percentile } from './row.ts'

export type InsideJob = { database: string }

const PASSES = 21
/** A price above every limit. */
const QUIET = { price: price('60000'), source: 'bench' }

/** The median duration of a pass. */
async function idlePasses({ database: address }: InsideJob): Promise<Figures> {
  const database = await databaseOf(address, machine)
  const store = await database.open({ create: false })
  try {
    const times: number[] = []
    const before = process.cpuUsage()
    for (let n = 0; n < PASSES; n++) {
      const begun = performance.now()
      const observe = async () => ({ price: QUIET, testimony: 'none' as const })
      const report = await runPass({ store, machine, observe })
      times.push(performance.now() - begun)
      if (report?.executionsCreated !== 0) throw new Error('a pass was to fire nothing')
    }
    const { user, system } = process.cpuUsage(before)
    return { ms: percentile(times, 0.5), cpu_us: (user + system) / PASSES }
  } finally {
    await store.close()
  }
}

serveJobs(idlePasses)
