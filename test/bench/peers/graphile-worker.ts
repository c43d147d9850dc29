// graphile-worker, a queue on PostgreSQL: jobs are added in one go, and then claimed and completed, each in a commit of
// its own, or many in one. In batches it goes on to the next job before the last one's completion is committed.

import { Logger, makeWorkerUtils, runOnce } from 'graphile-worker'
import { serveJobs } from '../helper.ts'
import type { PeerDone, ServerPeerJob } from './jobs.ts'

const TASK = 'buy'
const CONNECTIONS = 10
const BATCH = 500
const logger = new Logger(() => () => {})

serveJobs(async ({ database, jobs, manner }: ServerPeerJob): Promise<PeerDone> => {
  const connectionString = database
  const utils = await makeWorkerUtils({ connectionString, logger })
  try {
    await utils.migrate()
    const begun = performance.now()
    await utils.addJobs(
      Array.from({ length: jobs }, (_, i) => ({
        identifier: TASK,
        payload: { plan: `p${i}`, amount_usd: '10.00' },
      })),
    )
    const added = performance.now()
    let done = 0
    const batches = { localQueue: { size: BATCH }, completeJobBatchDelay: 0 }
    await runOnce({
      connectionString,
      logger,
      noHandleSignals: true,
      concurrency: manner === 'one by one' ? CONNECTIONS : BATCH,
      maxPoolSize: CONNECTIONS,
      ...(manner === 'in batches' && { preset: { worker: batches } }),
      taskList: {
        [TASK]: () => {
          done += 1
        },
      },
    })
    if (done !== jobs) throw new Error(`${done} of ${jobs} jobs were done`)
    return { addMs: added - begun, takeMs: performance.now() - added }
  } finally {
    await utils.release()
  }
})
