// Queues of others, each in a process of its own: `peers.ts NAME`. Jobs go through it as its users would send them, and
// only the process that measures a package loads it.

import SQLite from 'better-sqlite3'
import { serveJobs } from './helper.ts'

export type FilePeerJob = { file: string; jobs: number; synchronous: 'NORMAL' | 'FULL' }
/** On a server: claimed and completed by ten connections one by one, or many at a time. */
export type ServerPeerJob = { database: string; jobs: number; manner: 'one by one' | 'in batches' }
export type PeerDone = { addMs: number; takeMs: number }

const QUEUE = 'buy'
const CONNECTIONS = 10
const payload = (i: number) => ({ plan: `p${i}`, amount_usd: '10.00' })

/** Jobs are added in one go, and then claimed and done one by one. */
async function plainjob({ file, jobs, synchronous }: FilePeerJob): Promise<PeerDone> {
  const { better, defineQueue } = await import('plainjob')
  const connection = better(new SQLite(file))
  const silent = () => {}
  const logger = { error: silent, warn: silent, info: silent, debug: silent }
  const queue = defineQueue({ connection, logger })
  try {
    // It has set NORMAL.
    connection.pragma(`synchronous = ${synchronous}`)
    const begun = performance.now()
    queue.addMany(
      QUEUE,
      Array.from({ length: jobs }, (_, i) => payload(i)),
    )
    const added = performance.now()
    for (let i = 0; i < jobs; i++) {
      const job = queue.getAndMarkJobAsProcessing(QUEUE)
      if (!job) throw new Error(`the queue is empty after ${i} of ${jobs} jobs`)
      queue.markJobAsDone(job.id)
    }
    return { addMs: added - begun, takeMs: performance.now() - added }
  } finally {
    queue.close()
  }
}

/** Through an ORM, one by one. It sets WAL and synchronous NORMAL, and lets nobody choose. */
async function liteque({ file, jobs }: FilePeerJob): Promise<PeerDone> {
  const { buildDBClient, SqliteQueue } = await import('liteque')
  const db = buildDBClient(file, { runMigrations: true })
  const options = { defaultJobArgs: { numRetries: 2 }, keepFailedJobs: false }
  const queue = new SqliteQueue<ReturnType<typeof payload>>(QUEUE, db, options)
  const begun = performance.now()
  for (let i = 0; i < jobs; i++) await queue.enqueue(payload(i))
  const added = performance.now()
  for (let i = 0; i < jobs; i++) {
    const job = await queue.attemptDequeue({ timeoutSecs: 300 })
    if (!job) throw new Error(`the queue is empty after ${i} of ${jobs} jobs`)
    await queue.finalize(job.id, job.allocationId, 'completed')
  }
  return { addMs: added - begun, takeMs: performance.now() - added }
}

/**
 * On PostgreSQL: jobs are added in one go, and then claimed and completed, each in a commit of its own, or many in one.
 * In batches it goes on to the next job before the last one's completion is committed.
 */
async function graphileWorker({ database, jobs, manner }: ServerPeerJob): Promise<PeerDone> {
  const { Logger, makeWorkerUtils, runOnce } = await import('graphile-worker')
  const batch = 500
  const own = { connectionString: database, logger: new Logger(() => () => {}) }
  const utils = await makeWorkerUtils(own)
  try {
    await utils.migrate()
    const begun = performance.now()
    await utils.addJobs(Array.from({ length: jobs }, (_, i) => ({ identifier: QUEUE, payload: payload(i) })))
    const added = performance.now()
    let done = 0
    const batches = { localQueue: { size: batch }, completeJobBatchDelay: 0 }
    await runOnce({
      ...own,
      noHandleSignals: true,
      concurrency: manner === 'one by one' ? CONNECTIONS : batch,
      maxPoolSize: CONNECTIONS,
      ...(manner === 'in batches' && { preset: { worker: batches } }),
      taskList: {
        [QUEUE]: () => {
          done += 1
        },
      },
    })
    if (done !== jobs) throw new Error(`${done} of ${jobs} jobs were done`)
    return { addMs: added - begun, takeMs: performance.now() - added }
  } finally {
    await utils.release()
  }
}

/** On PostgreSQL: jobs are added in one go, and then claimed and completed, each by itself or many in one statement. */
async function pgBoss({ database, jobs, manner }: ServerPeerJob): Promise<PeerDone> {
  const { PgBoss } = await import('pg-boss')
  const batchSize = manner === 'one by one' ? 1 : 64
  const max = CONNECTIONS
  const boss = new PgBoss({ connectionString: database, max, supervise: false, schedule: false })
  boss.on('error', () => {})
  await boss.start()
  try {
    await boss.createQueue(QUEUE)
    const begun = performance.now()
    await boss.insert(
      QUEUE,
      Array.from({ length: jobs }, (_, i) => ({ data: payload(i) })),
    )
    const added = performance.now()
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
    await Promise.all(Array.from({ length: CONNECTIONS }, hand))
    if (done !== jobs) throw new Error(`${done} of ${jobs} jobs were done`)
    return { addMs: added - begun, takeMs: performance.now() - added }
  } finally {
    await boss.stop({ graceful: false })
  }
}

const PEERS: Record<string, (job: FilePeerJob & ServerPeerJob) => Promise<PeerDone>> = {
  plainjob,
  liteque,
  'graphile-worker': graphileWorker,
  'pg-boss': pgBoss,
}
const peer = PEERS[process.argv[2] ?? '']
if (!peer) throw new Error(`${process.argv[2]} is none of ${Object.keys(PEERS).join(', ')}`)
serveJobs(peer)
