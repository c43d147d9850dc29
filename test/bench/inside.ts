// A process that measures work inside itself: our passes that fire nothing, which the start of a tick would hide, and
// other job queues, as their users would send jobs through them. A package is loaded only to measure it.

import SQLite from 'better-sqlite3'
import { databaseOf } from '../../src/cli/context.ts'
import { price } from '../../src/core/money.ts'
import { runPass } from '../../src/engine/pass.ts'
import { machine } from '../../src/machine.ts'
import { serveJobs } from './helper.ts'
import { type Figures, percentile } from './row.ts'

/** `manner` is the durability or the batch size of the jobs: see each queue. */
export type InsideJob = {
  work: 'idle passes' | 'plainjob' | 'pg-boss'
  database: string
  jobs: number
  manner: string
}

// Passes that fire nothing, from the lock to the report.

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

// Other job queues: jobs are added in one go, and then claimed and completed.

const QUEUE = 'buy'
const payload = (i: number) => ({ plan: `p${i}`, amount_usd: '10.00' })

/** Jobs one by one; by its manner, each commit waits for the disk (FULL), or only a checkpoint does (NORMAL). */
async function plainjob({ database, jobs, manner }: InsideJob): Promise<Figures> {
  const { better, defineQueue } = await import('plainjob')
  const connection = better(new SQLite(database))
  const silent = () => {}
  const logger = { error: silent, warn: silent, info: silent, debug: silent }
  const queue = defineQueue({ connection, logger })
  try {
    // plainjob has set NORMAL.
    connection.pragma(`synchronous = ${manner}`)
    const begun = performance.now()
    const all = Array.from({ length: jobs }, (_, i) => payload(i))
    queue.addMany(QUEUE, all)
    for (let i = 0; i < jobs; i++) {
      const job = queue.getAndMarkJobAsProcessing(QUEUE)
      if (!job) throw new Error(`the queue is empty after ${i} of ${jobs} jobs`)
      queue.markJobAsDone(job.id)
    }
    return { per_second: (1000 * jobs) / (performance.now() - begun) }
  } finally {
    queue.close()
  }
}

/** Over ten connections, 'one by one' or 64 in one statement. */
async function pgBoss({ database, jobs, manner }: InsideJob): Promise<Figures> {
  const { PgBoss } = await import('pg-boss')
  const batchSize = manner === 'one by one' ? 1 : 64
  const max = 10
  const boss = new PgBoss({ connectionString: database, max, supervise: false, schedule: false })
  boss.on('error', () => {})
  await boss.start()
  try {
    await boss.createQueue(QUEUE)
    const begun = performance.now()
    const all = Array.from({ length: jobs }, (_, i) => ({ data: payload(i) }))
    await boss.insert(QUEUE, all)
    let done = 0
    const hand = async (): Promise<void> => {
      for (;;) {
        const claimed = await boss.fetch(QUEUE, { batchSize })
        if (claimed.length === 0) return
        const ids = claimed.map(({ id }) => id)
        await boss.complete(QUEUE, ids)
        done += claimed.length
      }
    }
    await Promise.all(Array.from({ length: max }, hand))
    if (done !== jobs) throw new Error(`${done} of ${jobs} jobs were done`)
    return { per_second: (1000 * jobs) / (performance.now() - begun) }
  } finally {
    await boss.stop({ graceful: false })
  }
}

const WORKS = { 'idle passes': idlePasses, plainjob, 'pg-boss': pgBoss }

serveJobs((job: InsideJob) => WORKS[job.work](job))
