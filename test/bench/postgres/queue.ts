// The way of an instruction beside queues of others on the same server.

import type { ServerPeerJob } from '../peers/jobs.ts'
import type { Row } from '../row.ts'
import { instructions, peerTurn, queue } from '../rows/queue.ts'
import { counted } from '../words.ts'

const MANNERS = ['in batches', 'one by one'] as const
const PEERS = ['graphile-worker', 'pg-boss'].flatMap((peer) =>
  MANNERS.map((manner) => ({ name: `${peer}, ${manner}`, peer, manner })),
)

export const queueOnPostgres: Row = {
  ...queue,
  ratios: PEERS.map(({ name }) => ({
    name: `rate to ${name}`,
    better: 'more',
    of: (seen) => seen('ours', 'per_second') / seen(name, 'per_second'),
  })),

  async prepare(stage, { on, pick }) {
    const jobs = pick({ quick: 3_000, full: 50_000 })
    const { database } = await on.empty(stage, { name: 'queue' })
    return {
      on: `${counted(jobs)} instructions or jobs a turn`,
      contestants: [
        { name: 'ours', role: 'ours', take: await instructions(stage, on, jobs) },
        ...PEERS.map(({ name, peer, manner }) => ({
          name,
          role: 'peer' as const,
          take: async () => {
            const own = await on.copyOf(database, peer)
            return peerTurn<ServerPeerJob>(peer, { database: own, jobs, manner })
          },
        })),
      ],
      notes: [NOTE],
    }
  },
}

const NOTE =
  'All three are as durable as the server, which answers when a commit is on disk. In batches graphile-worker goes on to ' +
  'the next job before the last completion is committed: after a crash some jobs are done twice.'
