// Confirmations, each of another execution: over many connections, which share commits, and over one, which waits for
// the disk each time.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Backend, ON_FILE, ours, type Raw, type RawJob, withWal } from '../backend.ts'
import { type Load, type Server, startBare, startLoad } from '../helper.ts'
import { serve, tick } from '../program.ts'
import { counted } from '../report.ts'
import {
  type Contestant,
  cpuOf,
  type Figures,
  type Goal,
  type Prepared,
  percentile,
  type Ratio,
  type Row,
  rateTo,
  type Scale,
  type Stage,
} from '../row.ts'

// What a write over HTTP is held against: the same transaction by hand, one or many a commit, and the call alone.

/** Writes that share a commit when many connections write. */
const SHARED = 64
export const ALONE = 'raw, one a commit'
export const TOGETHER = `raw, ${SHARED} a commit`
/** In a loop by hand over all of something, as many as ours has in a transaction. */
export const PER_COMMIT = { file: 1_000, postgres: 250 }
/** As many connections as a serve has to a server. */
const SERVER_CONNECTIONS = 10
export const MANY = `raw, one a commit, ${SERVER_CONNECTIONS} connections`
const DUTIES = 'h3 with duties'
const IN_SERIES = `h3 and ${TOGETHER}, in series`

/** Of a write over many connections. A call and its write need the same thread, one after the other. */
const WRITE_RATIOS: Ratio[] = [
  rateTo(IN_SERIES, 'h3', TOGETHER),
  cpuOf('h3 and raw', 'h3', TOGETHER),
  cpuOf('h3 with duties and raw', DUTIES, TOGETHER),
]
const WRITE_GOAL: Goal = { ratio: `rate to ${IN_SERIES}`, atLeast: 0.6 }

/** Of a write over one connection, which waits for the call and then for its commit. */
const LONE_RATIOS: Ratio[] = [rateTo(ALONE, ALONE), rateTo(`h3 and ${ALONE}, in series`, 'h3', ALONE)]
const LONE_GOAL: Goal = { ratio: `rate to ${ALONE}`, atLeast: 0.6 }

type Written = {
  on: Backend
  raw: Raw
  work: RawJob['work']
  database: string
  calls: number
  /** How ours commits on a server: many together, or each for itself on a connection of its own. */
  onServer: typeof TOGETHER | typeof MANY
}

/** The write by hand on a copy of a database: one a commit, and over many connections as ours does it. */
export function byHand(written: Written, connections: number): Contestant[] {
  const { on, raw, work, database, calls, onServer } = written
  const take =
    (count: number, perCommit: number, connections = 1) =>
    async () =>
      raw({ work, database: await on.copyOf(database, 'raw'), count, perCommit, connections })
  const floor = (name: string, take: Contestant['take']): Contestant => ({ name, role: 'floor', take })
  if (connections === 1) return [floor(ALONE, take(calls, 1))]
  const together = floor(TOGETHER, take(calls, SHARED))
  if (on.store === 'file')
    // One sync each takes its time: where it is not what is compared, fewer of them tell the rate.
    return [floor(ALONE, take(calls / 6, 1)), together]
  return [onServer === TOGETHER ? together : floor(MANY, take(calls, 1, SERVER_CONNECTIONS))]
}

/** The call alone, bare and with its duties; over one connection bare only. */
async function calledOnly(
  stage: Stage,
  load: Load,
  job: Parameters<Load>[1] & { connections: number },
): Promise<Contestant[]> {
  const kinds = job.connections === 1 ? (['h3'] as const) : (['h3', DUTIES] as const)
  const contestants: Contestant[] = []
  for (const name of kinds) {
    const server = await startBare(stage, name)
    await load(server, job)
    contestants.push({ name, role: 'floor', take: () => load(server, job) })
  }
  return contestants
}

// Confirmations, each of another execution.

const CONNECTIONS = 64

/** Calls of a turn, and calls before the first one. */
type Size = { connections: number; calls: number; warmUp: number }

/** The confirmation of one execution after the other, as a job for the load. */
export const confirmations =
  (key: string, ids: string, connections: number) => (calls: number, from: number) => ({
    connections,
    method: 'POST' as const,
    path: '/partner/v1/executions/$ID/confirm',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({
      partner_order_id: 'order-$ID',
      status: 'filled',
      usd_amount: '10.00',
      btc_amount: '0.00020000',
      execution_price: '50000.00',
    }),
    calls,
    ids,
    from,
  })

/** Writes the ids of the executions that are out, a line each, and returns the name of the file. */
export async function writeIds(
  { folder }: Pick<Stage, 'folder'>,
  on: Backend,
  database: string,
): Promise<string> {
  const file = join(folder, `ids-${on.store}`)
  writeFileSync(file, (await on.sentIds(database)).join('\n'))
  return file
}

async function prepare(stage: Stage, scale: Scale, size: Size): Promise<Prepared> {
  const { connections, calls, warmUp } = size
  const plans = warmUp + scale.rounds * calls
  const template = { name: 'template', users: 1000, plans, limits: 'alike', executions: 'sent' } as const
  const load = await startLoad(stage)
  let first: { database: string; confirmation: ReturnType<typeof confirmations> } | undefined
  const contestants = await ours(scale, async (on) => {
    const { database, key } = await on.ofPlans(stage, template)
    const confirmation = confirmations(key, await writeIds(stage, on, database), connections)
    first ??= { database, confirmation }
    const served = await serve(stage, await on.copyOf(database, 'ours'))
    await load(served, confirmation(warmUp, 0))
    return (round) => withWal(on, calls, () => load(served, confirmation(calls, warmUp + round * calls)))
  })
  if (!first) throw new Error('nothing of ours was prepared')
  const { database, confirmation } = first
  const { on } = scale
  const raw = await on.raw(stage)
  return {
    on: `${counted(plans)} executions that are out, ${counted(calls)} a turn`,
    contestants: [
      ...contestants,
      ...byHand({ on, raw, work: 'confirmations', database, calls, onServer: TOGETHER }, connections),
      ...(await calledOnly(stage, load, confirmation(calls, 0))),
    ],
  }
}

export const confirm: Row = {
  name: 'confirm',
  what: `POST confirm, ${CONNECTIONS} connections`,
  main: 'per_second',
  ratios: WRITE_RATIOS,
  goals: [WRITE_GOAL, { figure: 'p99_ms', atMost: 25 }, { figure: 'errors', atMost: 0 }],

  prepare: (stage, scale) =>
    prepare(stage, scale, {
      connections: CONNECTIONS,
      calls: scale.pick({ quick: 4_800, full: 60_000 }),
      warmUp: 4_000,
    }),
}

export const confirmAlone: Row = {
  name: 'confirm-alone',
  what: 'POST confirm, one connection',
  main: 'per_second',
  ratios: LONE_RATIOS,
  goals: [LONE_GOAL, { figure: 'errors', atMost: 0 }],

  prepare: (stage, scale) =>
    prepare(stage, scale, {
      connections: 1,
      calls: scale.pick({ quick: 600, full: 12_000 }),
      warmUp: 500,
    }),
}

// Confirmations while a tick in another process fires every plan.

/** Calls between two looks at whether the pass has come to its end. */
const BATCH = 2_000

type Call = (calls: number, from: number) => Parameters<Load>[1]

/** Loads a server for as long as something else goes on. */
async function beside(
  work: () => Promise<unknown>,
  { load, call, server, ids }: { load: Load; call: Call; server: Server; ids: number },
): Promise<Figures> {
  let isOver = false
  const times: number[] = []
  let errors = 0
  const working = work().finally(() => {
    isOver = true
  })
  const begun = performance.now()
  for (let from = 0; !isOver && from + BATCH <= ids; from += BATCH) {
    const job = { ...call(BATCH, from), onTimes: (ms: readonly number[]) => void times.push(...ms) }
    errors += (await load(server, job)).errors ?? 0
  }
  const seconds = (performance.now() - begun) / 1000
  await working
  return {
    per_second: times.length / seconds,
    p50_ms: percentile(times, 0.5),
    p99_ms: percentile(times, 0.99),
    errors,
  }
}

export const confirmBesidePass: Row = {
  name: 'confirm-beside-pass',
  what: `POST confirm, ${CONNECTIONS} connections, while a tick in another process fires every plan`,
  main: 'p99_ms',
  roundsMax: 3,
  ratios: [
    {
      name: 'p99 to h3 beside a raw pass',
      better: 'less',
      of: (seen) => seen('ours', 'p99_ms') / seen('h3 beside a raw pass', 'p99_ms'),
    },
  ],
  goals: [
    { figure: 'p99_ms', atMost: 50 },
    { figure: 'errors', atMost: 0 },
  ],

  async prepare(stage, scale) {
    const { on, pick } = scale
    const plans = pick({ quick: 20_000, full: 1_000_000 })
    const template = { name: 'template', users: 1000, plans, limits: 'alike', executions: 'sent' } as const
    const load = await startLoad(stage)
    let first: { database: string; call: Call } | undefined
    const contestants = await ours(scale, async (on) => {
      const { database, key } = await on.ofPlans(stage, template)
      const call = confirmations(key, await writeIds(stage, on, database), CONNECTIONS)
      first ??= { database, call }
      return async () => {
        const copy = await on.copyOf(database, 'ours')
        const server = await serve(stage, copy)
        await load(server, call(BATCH, 0))
        const pass = () => tick(copy, ['--price', '40000'])
        const figures = await beside(pass, {
          load,
          call: (n, from) => call(n, BATCH + from),
          server,
          ids: plans - BATCH,
        })
        await server.end()
        return figures
      }
    })
    if (!first) throw new Error('nothing of ours was prepared')
    const { database, call } = first
    const raw = await on.raw(stage)
    const h3 = await startBare(stage, 'h3')
    await load(h3, call(BATCH, 0))
    const floor = async (): Promise<Figures> => {
      const job = {
        work: 'pass',
        database: await on.copyOf(database, 'raw'),
        count: plans,
        perCommit: PER_COMMIT[on.store],
      } as const
      return beside(() => raw(job), { load, call, server: h3, ids: Number.MAX_SAFE_INTEGER })
    }
    return {
      on: `${counted(plans)} plans`,
      contestants: [...contestants, { name: 'h3 beside a raw pass', role: 'floor', take: floor }],
    }
  },
}

// A call that only reads: what the program adds to the server and the router that it is built on.

const WARM_UP_SECONDS = 0.5

export const me: Row = {
  name: 'me',
  what: `GET /me with a key, ${CONNECTIONS} connections`,
  main: 'per_second',
  ratios: [rateTo('h3', 'h3'), cpuOf('h3', 'h3'), cpuOf('h3 with duties', 'h3 with duties')],
  goals: [
    { ratio: 'rate to h3', atLeast: 0.6 },
    { ratio: 'CPU of h3 to ours', atLeast: 0.6 },
    { figure: 'errors', atMost: 0 },
  ],

  async prepare(stage, scale) {
    const { pick } = scale
    const load = await startLoad(stage)
    const turns = async (server: Server, key = '') => {
      const call = {
        connections: CONNECTIONS,
        method: 'GET' as const,
        path: '/partner/v1/me',
        headers: { authorization: `Bearer ${key}` },
      }
      await load(server, { ...call, seconds: WARM_UP_SECONDS })
      const seconds = pick({ quick: 0.7, full: 8 })
      return () => load(server, { ...call, seconds })
    }
    return {
      on: 'an empty database',
      contestants: [
        ...(await ours(scale, async (on) => {
          const { database, key } = await on.empty(stage)
          return turns(await serve(stage, database), key)
        })),
        { name: 'h3', role: 'floor', take: await turns(await startBare(stage, 'h3')) },
        {
          name: 'h3 with duties',
          role: 'floor',
          take: await turns(await startBare(stage, 'h3 with duties')),
        },
        { name: 'node:http', role: 'floor', take: await turns(await startBare(stage, 'node:http')) },
      ],
      notes: [
        'A server that has less than a whole core was waiting for the load: then compare the processor time of a call.',
      ],
    }
  },
}

// New plans, each with its first window and schedule.

const USERS = 1_000
const WARM_UP = 3_000

export const plan: Row = {
  name: 'plan',
  what: `POST plans, new ones, ${CONNECTIONS} connections`,
  main: 'per_second',
  ratios: WRITE_RATIOS,
  goals: [
    { figure: 'per_second', atLeast: 15_000 },
    { figure: 'errors', atMost: 0 },
  ],

  async prepare(stage, scale) {
    const { on, rounds, pick } = scale
    const calls = pick({ quick: 4_800, full: 60_000 })
    const ids = join(stage.folder, 'ids')
    const count = WARM_UP + rounds * calls
    const lines = Array.from(
      { length: count },
      (_, i) => `"partner_user_id":"u${1 + (i % USERS)}","partner_plan_id":"plan-${i}"`,
    )
    writeFileSync(ids, lines.join('\n'))
    const created = (key: string) => (calls: number, from: number) => ({
      connections: CONNECTIONS,
      method: 'POST' as const,
      path: '/partner/v1/plans',
      headers: { authorization: `Bearer ${key}` },
      body: '{$ID,"amount_usd":"60.00","frequency":"daily"}',
      calls,
      ids,
      from,
    })
    const load = await startLoad(stage)
    let database = ''
    const contestants = await ours(scale, async (on) => {
      const place = await on.ofUsers(stage, { name: 'template', users: USERS })
      if (on === scale.on) database = place.database
      const call = created(place.key)
      const served = await serve(stage, await on.copyOf(place.database, 'ours'))
      await load(served, call(WARM_UP, 0))
      return (round) => withWal(on, calls, () => load(served, call(calls, WARM_UP + round * calls)))
    })
    const raw = await on.raw(stage)
    return {
      on: `${counted(USERS)} users, ${counted(calls)} plans a turn`,
      contestants: [
        ...contestants,
        ...byHand({ on, raw, work: 'plans', database, calls, onServer: MANY }, CONNECTIONS),
        ...(await calledOnly(stage, load, created('')(calls, 0))),
      ],
    }
  },
}

// Polls that take a whole page, from few and from many executions that wait.

const PAGE = 500
const FEW = 10_000
/** Each takes a page, and the next round finds it full again. */
const POLLS = 10

export const poll: Row = {
  name: 'poll',
  what: `GET executions/due, ${PAGE} at a time`,
  main: 'ms',
  ratios: [
    { name: 'time to raw', better: 'less', of: (seen) => seen('ours', 'ms') / seen('raw', 'ms') },
    {
      name: 'CPU of ours to raw',
      better: 'less',
      isSteady: true,
      of: (seen) => seen('ours', 'cpu_us') / seen('raw', 'cpu_us'),
    },
    {
      name: `the most to ${counted(FEW)}`,
      better: 'less',
      of: (seen) => seen('ours', 'ms') / seen(`ours, ${counted(FEW)}`, 'ms'),
    },
  ],
  goals: [
    { ratio: 'time to raw', atMost: 2 },
    { ratio: `the most to ${counted(FEW)}`, atMost: 1.5 },
    { figure: 'errors', atMost: 0 },
  ],

  async prepare(stage, scale) {
    const { on, pick } = scale
    const most = pick({ quick: 70_000, full: 1_000_000 })
    let hand: Take | undefined
    const contestants = await ours(scale, async (on) => {
      const place = await waiting(stage, on, most)
      if (on === scale.on) hand = await pollsByHand(stage, on, place)
      return polled(stage, on, place)
    })
    const few = await polled(stage, on, await waiting(stage, on, FEW))
    return {
      on: `${counted(most)} executions that wait, ${POLLS} polls a turn`,
      contestants: [
        ...contestants.filter(({ name }) => name !== ON_FILE),
        { name: `ours, ${counted(FEW)}`, role: 'ours', take: few },
        ...contestants.filter(({ name }) => name === ON_FILE),
        ...(hand ? [{ name: 'raw', role: 'floor' as const, take: hand }] : []),
      ],
    }
  },
}

type Take = Contestant['take']
type Waiting = { template: string; plans: number; key: string }

async function waiting(stage: Stage, on: Backend, plans: number): Promise<Waiting> {
  const name = `template-${plans}`
  const layout = { users: 1000, plans, limits: 'alike', executions: 'pending' } as const
  const { database, key } = await on.ofPlans(stage, { name, ...layout })
  return { template: database, plans, key }
}

async function polled(stage: Stage, on: Backend, { template, plans, key }: Waiting): Promise<Take> {
  const load = await startLoad(stage)
  const own = await on.copyOf(template, `ours-${plans}`)
  const served = await serve(stage, own)
  const call = {
    connections: 1,
    method: 'GET' as const,
    path: '/partner/v1/executions/due',
    headers: { authorization: `Bearer ${key}` },
    calls: POLLS,
  }
  const take: Take = async () => {
    await on.takeBack(own)
    const figures = await load(served, call)
    return { ...figures, ms: 1000 / (figures.per_second ?? Number.NaN) }
  }
  await take(0)
  return take
}

async function pollsByHand(stage: Stage, on: Backend, { template, plans }: Waiting): Promise<Take> {
  const raw = await on.raw(stage)
  const database = await on.copyOf(template, `raw-${plans}`)
  const take: Take = async () => {
    await on.takeBack(database)
    return raw({ work: 'polls', database, count: POLLS, perCommit: 1 })
  }
  await take(0)
  return take
}
