// Ticks in which every plan fires, with limit prices in the order of the file or in none at all; passes that fire
// nothing, over few plans and over many; and the whole way from a tick to the confirmation of each instruction.

import { join } from 'node:path'
import type { Layout } from '../../support/large-database.ts'
import { type Backend, plansWith } from '../backend.ts'
import { type Server, startHelper, startLoad, startRaw } from '../helper.ts'
import type { InsideJob } from '../inside.ts'
import { forEach, type Run, run, serve } from '../program.ts'
import { counted, cpuOf, type Figures, multiple, type Row, rateTo, type Stage, type Take } from '../row.ts'
import { confirmation, linesIn } from './calls.ts'

/** The duration of a tick by its own account. */
type Ticked = Run & { durationMs: number }

/** A tick below every limit. Throws when it does not fire all plans of a database. */
async function fireAll(database: string, plans: number): Promise<Ticked> {
  const done = await run(database, ['tick', '--json', '--price', '40000'])
  const { executions_created: fired, duration_ms: durationMs } = JSON.parse(done.out)
  if (fired !== plans) throw new Error(`${fired} of ${plans} plans have fired`)
  return { ...done, durationMs }
}

async function firing(on: Backend, template: string, plans: number): Promise<Figures> {
  const done = await fireAll(await on.copyOf(template, 'ours'), plans)
  return { ...forEach(done, plans), per_second: (1000 * plans) / done.durationMs }
}

/** The number of plans in a transaction of ours. */
const PER_COMMIT = { file: 1_000, postgres: 250 }

const TENTH = 'ours, a tenth of the plans'

/** Ours and the hand-written loop, which goes through the plans in the order of the file. */
const firingAll = (name: string, what: string, limits: Layout['limits']): Row => ({
  name,
  what,
  main: 'per_second',
  ratios: [
    rateTo('raw', 'raw'),
    cpuOf('raw', 'raw'),
    multiple('CPU of a tranche, to that of a tenth of the plans', 'cpu_us', ['ours', TENTH]),
  ],

  async prepare(stage, { on, pick }) {
    const plans = pick({ quick: 20_000, full: 1_000_000 })
    const many = await on.place(stage, 'template', plansWith({ plans, limits }))
    const few = await on.place(stage, 'tenth', plansWith({ plans: plans / 10, limits }))
    const raw = await startRaw(stage, on.store)
    const job = { work: 'pass', count: plans, perCommit: PER_COMMIT[on.store] } as const
    return {
      on: `${counted(plans)} plans`,
      contestants: {
        ours: () => firing(on, many.database, plans),
        [TENTH]: () => firing(on, few.database, plans / 10),
        raw: async () => raw({ ...job, database: await on.copyOf(many.database, 'raw') }),
      },
    }
  },
})

const pass = firingAll('pass', 'a tick in which every plan fires', 'alike')
const plunge = firingAll('plunge', 'a tick after a plunge: all fire, limit prices in no order', 'scattered')

// A tick is mostly its start, in which a millisecond more would not show: so the source runs here in a process of its
// own, from the lock to the report.

const FEW = 10_000

const idlePass: Row = {
  name: 'idle-pass',
  what: 'a pass that fires nothing, without the start of a process',
  main: 'ms',
  ratios: [
    multiple('the most to the fewest plans', 'ms', ['ours', `ours, ${counted(FEW)}`]),
    multiple('CPU, the most to the fewest plans', 'cpu_us', ['ours', `ours, ${counted(FEW)}`]),
  ],

  async prepare(stage, { on, pick }) {
    const most = pick({ quick: 200_000, full: 10_000_000 })
    const idle = async (plans: number): Promise<Take> => {
      const { database } = await on.place(stage, `idle-${plans}`, plansWith({ plans, limits: 'in turns' }))
      const inside = await startHelper<InsideJob, Figures>(stage, 'inside.ts')
      const take = () => inside.ask({ work: 'idle passes', database, jobs: 0 })
      await take()
      return take
    }
    return {
      on: `${counted(most)} plans`,
      contestants: { ours: await idle(most), [`ours, ${counted(FEW)}`]: await idle(FEW) },
    }
  },
}

// An instruction from its firing to its confirmation, beside a job queue that stores jobs in the same kind of database:
// its add, claim and done.

const PEERS = { file: 'plainjob', postgres: 'pg-boss' } as const

const beside = (store: Backend['store']): Row => ({
  name: 'queue',
  what: 'fire, poll and confirm over HTTP, beside add, claim and done inside a process',
  main: 'per_second',
  store,
  ratios: [rateTo(PEERS[store], PEERS[store])],

  async prepare(stage, { on, pick }) {
    const jobs = pick({ quick: 2_000, full: 50_000 })
    const ours = await instructions(stage, on, jobs)
    const empty = await on.place(stage, 'queue')
    const work = PEERS[store]
    const peer: Take = async (round) => {
      const file = join(stage.folder, `${work}-${round}.db`)
      const database = on.store === 'file' ? file : await on.copyOf(empty.database, work)
      return peerTurn({ work, database, jobs })
    }
    return { on: `${counted(jobs)} instructions or jobs a turn`, contestants: { ours, [work]: peer } }
  },
})

/** Every plan fires, the partner polls all instructions, and confirms each. */
async function instructions(stage: Stage, on: Backend, jobs: number): Promise<Take> {
  const { database, key } = await on.place(stage, 'template', plansWith({ plans: jobs, limits: 'alike' }))
  const load = await startLoad(stage)
  return async (round) => {
    const copy = await on.copyOf(database, 'ours')
    const served = await serve(stage, copy)
    const { durationMs } = await fireAll(copy, jobs)
    const begun = performance.now()
    const ids = await pollAll(served, key)
    const polledMs = performance.now() - begun
    if (ids.length !== jobs) throw new Error(`${ids.length} of ${jobs} instructions have come`)
    // Each instruction is for the amount its plan fired: part of it is reported as bought.
    const call = confirmation(key, linesIn(stage, `round-${round}`, ids), ['partial', '1.00'])
    const { per_second = Number.NaN } = await load(served, { ...call, calls: jobs })
    await served.end()
    return { per_second: (1000 * jobs) / (durationMs + polledMs + (1000 * jobs) / per_second) }
  }
}

/** Polls until nothing remains. Throws on any answer but 200. */
async function pollAll({ url }: Server, key: string): Promise<string[]> {
  const ids: string[] = []
  for (;;) {
    const headers = { authorization: `Bearer ${key}` }
    const response = await fetch(`${url}/partner/v1/executions/due`, { headers })
    const page = (await response.json()) as { execution_id: string }[]
    if (response.status !== 200) throw new Error(JSON.stringify(page))
    for (const { execution_id } of page) ids.push(execution_id)
    if (response.headers.get('x-due-remaining') === '0') return ids
  }
}

/** A single turn of a peer, in a process of its own. */
async function peerTurn(job: InsideJob): Promise<Figures> {
  const endings: (() => unknown)[] = []
  try {
    const inside = await startHelper<InsideJob, Figures>({ after: (end) => endings.push(end) }, 'inside.ts')
    return await inside.ask(job)
  } finally {
    for (const end of endings) await end()
  }
}

export const PASSES = [pass, plunge, idlePass, beside('file'), beside('postgres')]
