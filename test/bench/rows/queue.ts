// The way of an instruction from its firing to its confirmation, beside queues of others that keep jobs in the same
// kind of database: what they call add, claim and done.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Backend } from '../backend.ts'
import { startHelper } from '../helper.ts'
import { startLoad } from '../loading.ts'
import { pollAll } from '../partner.ts'
import type { PeerDone, PeerJob } from '../peers/jobs.ts'
import { serve, tick } from '../program.ts'
import type { Contestant, Figures, Row, Stage } from '../row.ts'
import { counted } from '../words.ts'
import { confirmations } from './calls.ts'

const CONNECTIONS = 64
/** What runs, and when it waits for the disk: at each commit, or only at a checkpoint. */
const PEERS = [
  { peer: 'plainjob', synchronous: 'FULL' },
  { peer: 'plainjob', synchronous: 'NORMAL' },
  { peer: 'liteque', synchronous: 'NORMAL' },
] as const

type PeerKind = { peer: string; synchronous: PeerJob['synchronous'] }

const nameOf = ({ peer, synchronous }: PeerKind): string => `${peer}, synchronous ${synchronous}`

export const queue: Row = {
  name: 'queue',
  what: 'fire, poll and confirm over HTTP, beside add, claim and done inside a process',
  main: 'per_second',
  ratios: PEERS.map((kind) => ({
    name: `rate to ${nameOf(kind)}`,
    better: 'more',
    of: (seen) => seen('ours', 'per_second') / seen(nameOf(kind), 'per_second'),
  })),
  goals: [],

  async prepare(stage, { on, pick }) {
    const jobs = pick({ quick: 1_500, full: 50_000 })
    const own = await instructions(stage, on, jobs)
    const peers: Contestant[] = []
    const notes = [NOTE]
    for (const kind of PEERS) {
      const take = peerTakes(stage, kind, jobs)
      // What does not run here is said, and is no reason to measure nothing.
      const failure = await take(-1).then(
        () => null,
        (error) => String(error).split('\n')[0],
      )
      if (failure !== null) notes.push(`NOT MEASURED: ${nameOf(kind)}: ${failure}`)
      else peers.push({ name: nameOf(kind), role: 'peer', take })
    }
    return {
      on: `${counted(jobs)} instructions or jobs a turn`,
      contestants: [{ name: 'ours', role: 'ours', take: own }, ...peers],
      notes,
    }
  },
}

/** Every plan fires, the partner polls for all of it, and confirms each. */
export async function instructions(stage: Stage, on: Backend, jobs: number): Promise<Contestant['take']> {
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

const NOTE =
  'Ours is synchronous FULL: what was answered survives a power cut. Both peers set NORMAL in WAL mode, with which the ' +
  'last commits may be lost; plainjob is measured at FULL too.'

const peerTakes =
  (stage: Stage, { peer, synchronous }: PeerKind, jobs: number): Contestant['take'] =>
  (round) => {
    const file = join(stage.folder, `${peer}-${synchronous}-${round}.db`)
    return peerTurn<PeerJob>(peer, { file, jobs: round < 0 ? 1 : jobs, synchronous })
  }

/** One turn of a peer, in a process of its own. */
export async function peerTurn<Job extends { jobs: number }>(peer: string, job: Job): Promise<Figures> {
  const endings: (() => unknown)[] = []
  try {
    const script = join(import.meta.dirname, `../peers/${peer}.ts`)
    const own = { after: (end: () => unknown) => void endings.push(end) }
    const helper = await startHelper<Job, PeerDone>(own, script)
    const { addMs, takeMs } = await helper.ask(job)
    return { per_second: (1000 * job.jobs) / (addMs + takeMs) }
  } finally {
    for (const end of endings) await end()
  }
}
