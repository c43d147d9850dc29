// The way of an instruction from its firing to its confirmation, beside queues of others that keep jobs in the same
// kind of database: what they call add, claim and done.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Backend } from '../backend.ts'
import { pollAll, startHelper, startLoad } from '../helper.ts'
import type { FilePeerJob, PeerDone, ServerPeerJob } from '../peers.ts'
import { serve, tick } from '../program.ts'
import { counted } from '../report.ts'
import { type Contestant, type Figures, type Row, rateTo, type Stage } from '../row.ts'
import { confirmations } from './calls.ts'

const CONNECTIONS = 64

/** What runs, and when it waits for the disk: at each commit, or only at a checkpoint. */
const FILE_PEERS = (
  [
    { peer: 'plainjob', synchronous: 'FULL' },
    { peer: 'plainjob', synchronous: 'NORMAL' },
    { peer: 'liteque', synchronous: 'NORMAL' },
  ] as const
).map((kind) => ({ ...kind, name: `${kind.peer}, synchronous ${kind.synchronous}` }))

const SERVER_PEERS = ['graphile-worker', 'pg-boss'].flatMap((peer) =>
  (['in batches', 'one by one'] as const).map((manner) => ({ name: `${peer}, ${manner}`, peer, manner })),
)

const FILE_NOTE =
  'Ours is synchronous FULL: what was answered survives a power cut. Both peers set NORMAL in WAL mode, with which the ' +
  'last commits may be lost; plainjob is measured at FULL too.'
const SERVER_NOTE =
  'All three are as durable as the server, which answers when a commit is on disk. In batches graphile-worker goes on to ' +
  'the next job before the last completion is committed: after a crash some jobs are done twice.'

export const queue: Row = {
  name: 'queue',
  what: 'fire, poll and confirm over HTTP, beside add, claim and done inside a process',
  main: 'per_second',
  ratios: FILE_PEERS.map(({ name }) => rateTo(name, name)),
  goals: [],

  async prepare(stage, { on, pick }) {
    const jobs = pick({ quick: 1_500, full: 50_000 })
    const own = await instructions(stage, on, jobs)
    const peers: Contestant[] = []
    const notes = [FILE_NOTE]
    for (const { name, peer, synchronous } of FILE_PEERS) {
      const take: Contestant['take'] = (round) => {
        const file = join(stage.folder, `${peer}-${synchronous}-${round}.db`)
        return peerTurn<FilePeerJob>(peer, { file, jobs: round < 0 ? 1 : jobs, synchronous })
      }
      // What does not run here is said, and is no reason to measure nothing.
      const failure = await take(-1).then(
        () => null,
        (error) => String(error).split('\n')[0],
      )
      if (failure !== null) notes.push(`NOT MEASURED: ${name}: ${failure}`)
      else peers.push({ name, role: 'peer', take })
    }
    return {
      on: `${counted(jobs)} instructions or jobs a turn`,
      contestants: [{ name: 'ours', role: 'ours', take: own }, ...peers],
      notes,
    }
  },
}

export const queueOnPostgres: Row = {
  ...queue,
  ratios: SERVER_PEERS.map(({ name }) => rateTo(name, name)),

  async prepare(stage, { on, pick }) {
    const jobs = pick({ quick: 3_000, full: 50_000 })
    const { database } = await on.empty(stage, { name: 'queue' })
    return {
      on: `${counted(jobs)} instructions or jobs a turn`,
      contestants: [
        { name: 'ours', role: 'ours', take: await instructions(stage, on, jobs) },
        ...SERVER_PEERS.map(({ name, peer, manner }) => ({
          name,
          role: 'peer' as const,
          take: async () => {
            const own = await on.copyOf(database, peer)
            return peerTurn<ServerPeerJob>(peer, { database: own, jobs, manner })
          },
        })),
      ],
      notes: [SERVER_NOTE],
    }
  },
}

/** Every plan fires, the partner polls for all of it, and confirms each. */
async function instructions(stage: Stage, on: Backend, jobs: number): Promise<Contestant['take']> {
  const template = { name: 'template', users: 1000, plans: jobs, limits: 'alike' } as const
  const { database, key } = await on.ofPlans(stage, template)
  const load = await startLoad(stage)
  return async () => {
    const copy = await on.copyOf(database, 'ours')
    const served = await serve(stage, copy)
    const fired = await tick(copy, ['--price', '40000'])
    const begun = performance.now()
    const { ids } = await pollAll(served, key)
    const polledMs = performance.now() - begun
    if (ids.length !== jobs) throw new Error(`${ids.length} of ${jobs} instructions have come`)
    const lines = join(stage.folder, `${on.store}-${begun}.ids`)
    writeFileSync(lines, ids.join('\n'))
    const call = confirmations(key, lines, CONNECTIONS)(jobs, 0)
    // Each instruction is for what its plan fired: part of it is taken as bought.
    const { per_second = Number.NaN, errors = 0 } = await load(served, {
      ...call,
      body: call.body.replace('filled', 'partial').replace('10.00', '1.00'),
    })
    await served.end()
    const ms = fired.tick.duration_ms + polledMs + (1000 * jobs) / per_second
    return { per_second: (1000 * jobs) / ms, errors }
  }
}

/** One turn of a peer, in a process of its own. */
async function peerTurn<Job extends { jobs: number }>(peer: string, job: Job): Promise<Figures> {
  const endings: (() => unknown)[] = []
  try {
    const script = join(import.meta.dirname, '../peers.ts')
    const own = { after: (end: () => unknown) => void endings.push(end) }
    const helper = await startHelper<Job, PeerDone>(own, script, [peer])
    const { addMs, takeMs } = await helper.ask(job)
    return { per_second: (1000 * job.jobs) / (addMs + takeMs) }
  } finally {
    for (const end of endings) await end()
  }
}
