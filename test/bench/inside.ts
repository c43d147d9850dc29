// A process that measures work inside itself: our passes that fire nothing, which the start of a tick would hide, and
// other job queues, as their users would send jobs through them. A package is loaded only to measure it.

import SQLite from 'better-sqlite3'
import { databaseOf } from '../../src/cli/context.ts'
import { price } from '../../src/core/money.ts'
import { runPass } from '../../src/engine/pass.ts'
import { machine } from '../../src/machine.ts'
import { serveJobs } from './helper.ts'
import { type Figures, percentile } from './row.ts'

export type InsideJob = { work: 'idle passes' | 'plainjob' | 'pg-boss'; database: string; jobs: number }

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

/** Jobs one by one. Each commit waits for the disk, as ours do. */
async function plainjob({ database, jobs }: InsideJob): Promise<Figures> {
  const { better, defineQueue } = await import('plainjob')
  const connection = better(new SQLite(database))
  const silent = () => {}
  const logger = { error: silent, warn: silent, info: silent, debug: silent }
  const queue = defineQueue({ connection, logger })
  try {
    // plainjob has set NORMAL, with which a power cut may take the last commits.
    connection.pragma('synchronous = FULL')
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

/** Jobs one by one, over ten connections. */
async function pgBoss({ database, jobs }: InsideJob): Promise<Figures> {
  const { PgBoss } = await import('pg-boss')
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
        const [claimed] = await boss.fetch(QUEUE)
        if (!claimed) return
        await boss.complete(QUEUE, claimed.id)
        done += 1
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
