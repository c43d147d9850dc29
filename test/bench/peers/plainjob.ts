// plainjob, a queue on better-sqlite3: jobs are added in one go, and then claimed and done one by one.

import SQLite from 'better-sqlite3'
import { better, defineQueue } from 'plainjob'
import { serveJobs } from '../helper.ts'
import type { PeerDone, PeerJob } from './jobs.ts'

const TYPE = 'buy'

const silent = () => {}

serveJobs(({ file, jobs, synchronous }: PeerJob): PeerDone => {
  const connection = better(new SQLite(file))
  const queue = defineQueue({
    connection,
    logger: { error: silent, warn: silent, info: silent, debug: silent },
  })
  try {
    // It has set NORMAL.
    connection.pragma(`synchronous = ${synchronous}`)
    const begun = performance.now()
    queue.addMany(
      TYPE,
      Array.from({ length: jobs }, (_, i) => ({ plan: `p${i}`, amount_usd: '10.00' })),
    )
    const added = performance.now()
    for (let i = 0; i < jobs; i++) {
      const job = queue.getAndMarkJobAsProcessing(TYPE)
      if (!job) throw new Error(`the queue is empty after ${i} of ${jobs} jobs`)
      queue.markJobAsDone(job.id)
    }
    return { addMs: added - begun, takeMs: performance.now() - added }
  } finally {
    queue.close()
  }
})
