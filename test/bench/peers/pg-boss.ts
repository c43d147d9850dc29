// pg-boss, a queue on PostgreSQL: jobs are added in one go, and then claimed and completed, each by itself or many in
// one statement.

import { PgBoss } from 'pg-boss'
import { serveJobs } from '../helper.ts'
import type { PeerDone, ServerPeerJob } from './jobs.ts'

const QUEUE = 'buy'
const HANDS = 10
const BATCH = { 'one by one': 1, 'in batches': 64 }

serveJobs(async ({ database, jobs, manner }: ServerPeerJob): Promise<PeerDone> => {
  const boss = new PgBoss({
    connectionString: database,
    max: HANDS,
    supervise: false,
    schedule: false,
  })
  boss.on('error', () => {})
  await boss.start()
  try {
    await boss.createQueue(QUEUE)
    const begun = performance.now()
    await boss.insert(
      QUEUE,
      Array.from({ length: jobs }, (_, i) => ({ data: { plan: `p${i}`, amount_usd: '10.00' } })),
    )
    const added = performance.now()
    let done = 0
    const hand = async (): Promise<void> => {
      for (;;) {
        const claimed = await boss.fetch(QUEUE, { batchSize: BATCH[manner] })
        if (claimed.length === 0) return
        await boss.complete(
          QUEUE,
          claimed.map(({ id }) => id),
        )
        done += claimed.length
      }
    }
    await Promise.all(Array.from({ length: HANDS }, hand))
    if (done !== jobs) throw new Error(`${done} of ${jobs} jobs were done`)
    return { addMs: added - begun, takeMs: performance.now() - added }
  } finally {
    await boss.stop({ graceful: false })
  }
})
