// liteque, a queue on better-sqlite3 through an ORM: jobs are added, claimed and done one by one. It sets WAL and
// synchronous NORMAL, and lets nobody choose.

import { buildDBClient, SqliteQueue } from 'liteque'
import { serveJobs } from '../helper.ts'
import type { PeerDone, PeerJob } from './jobs.ts'

const TIMEOUT_SECONDS = 300

type Job = { plan: string; amount_usd: string }

serveJobs(async ({ file, jobs }: PeerJob): Promise<PeerDone> => {
  const db = buildDBClient(file, { runMigrations: true })
  const queue = new SqliteQueue<Job>('buy', db, {
    defaultJobArgs: { numRetries: 2 },
    keepFailedJobs: false,
  })
  const begun = performance.now()
  for (let i = 0; i < jobs; i++) await queue.enqueue({ plan: `p${i}`, amount_usd: '10.00' })
  const added = performance.now()
  for (let i = 0; i < jobs; i++) {
    const job = await queue.attemptDequeue({ timeoutSecs: TIMEOUT_SECONDS })
    if (!job) throw new Error(`the queue is empty after ${i} of ${jobs} jobs`)
    await queue.finalize(job.id, job.allocationId, 'completed')
  }
  return { addMs: added - begun, takeMs: performance.now() - added }
})
