// A tick in which every plan fires: with limit prices in the order of the file, and after a plunge through prices that
// lie in no order at all.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { syntheticPath } from '../../../src/cli/demo/simulated-partner.ts'
import { formatPrice, type Price } from '../../../src/core/money.ts'
import type { Layout } from '../../support/large-database.ts'
import { type Backend, ours, type Raw, withWal } from '../backend.ts'
import { pollAll, startHelper, startLoad } from '../helper.ts'
import type { InsideDone, InsideJob } from '../inside.ts'
import {
  cpuUsOfEnded,
  databaseCpuUs,
  known,
  peakMib,
  residentMib,
  run,
  serve,
  type Ticked,
  tick,
} from '../program.ts'
import { counted } from '../report.ts'
import {
  type Contestant,
  cpuOf,
  type Figure,
  type Figures,
  percentile,
  type Row,
  rateTo,
  type Scale,
  type Seen,
  type Stage,
} from '../row.ts'
import { confirmations, PER_COMMIT } from './calls.ts'

/** Below every limit. */
const PLUNGE = ['--price', '40000']

/** A tick that fires all plans of a copy of a database, or several at once. Throws when they do not. */
async function firing(
  on: Backend,
  database: string,
  { plans, tickers = 1 }: { plans: number; tickers?: number },
): Promise<Figures> {
  const copy = await on.copyOf(database, 'ours')
  const commits = await on.watchCommits(copy)
  return withWal(on, plans, async () => {
    const [cpuBefore, databaseBefore] = [cpuUsOfEnded(), databaseCpuUs(copy)]
    const ticks = Array.from({ length: tickers }, () => ended(tick(copy, PLUNGE)))
    const hands = await Promise.all(ticks).finally(() => commits.end())
    const fired = hands.reduce((sum, { tick }) => sum + tick.executions_created, 0)
    if (fired !== plans) throw new Error(`${fired} of ${plans} plans have fired`)
    // From the first that began to the last that ended: a process that starts late does its part all the same.
    const at = hands.filter(({ tick }) => !tick.skipped)
    const begun = Math.min(...at.map(({ endedAt, tick }) => endedAt - tick.duration_ms))
    const ms = tickers === 1 ? at[0]?.tick.duration_ms : Math.max(...at.map(({ endedAt }) => endedAt)) - begun
    return known({
      per_second: (1000 * plans) / (ms ?? Number.NaN),
      cpu_us: (cpuUsOfEnded() - cpuBefore) / plans,
      server_us: (databaseCpuUs(copy) - databaseBefore) / plans,
      chunk_p50_ms: commits.between(0.5),
      chunk_max_ms: commits.between(1),
      peak_mib: Math.max(...at.map(({ peakMib }) => peakMib)),
    })
  })
}

async function ended(tick: Promise<Ticked>): Promise<Ticked & { endedAt: number }> {
  const done = await tick
  return { ...done, endedAt: performance.now() }
}

export const RAW = 'raw, in the order of the file'
/** Hands of a pass. */
const TOGETHER = 4
export const RAW_TOGETHER = `raw, ${TOGETHER} connections`
const RAW_RATIOS = [rateTo('raw', RAW), cpuOf('raw', RAW)]

const template = (plans: number, limits: Layout['limits']) =>
  ({ name: `${limits}-${plans}`, users: 1000, plans, limits }) as const

function byHand(
  on: Backend,
  raw: Raw,
  { database, plans, connections = 1 }: { database: string; plans: number; connections?: number },
): Contestant {
  const perCommit = PER_COMMIT[on.store]
  return {
    name: connections === 1 ? RAW : RAW_TOGETHER,
    role: 'floor',
    take: async () =>
      raw({ work: 'pass', database: await on.copyOf(database, 'raw'), count: plans, perCommit, connections }),
  }
}

/** Ours and by hand. */
async function passes(
  stage: Stage,
  scale: Scale,
  plans: number,
  limits: Layout['limits'],
): Promise<Contestant[]> {
  let of = ''
  const contestants = await ours(scale, async (on) => {
    const { database } = await on.ofPlans(stage, template(plans, limits))
    if (on === scale.on) of = database
    return () => firing(on, database, { plans })
  })
  return [...contestants, byHand(scale.on, await scale.on.raw(stage), { database: of, plans })]
}

export const pass: Row = {
  name: 'pass',
  what: 'a tick in which every plan fires',
  main: 'per_second',
  ratios: RAW_RATIOS,
  goals: [
    { figure: 'per_second', atLeast: 60_000 },
    { figure: 'chunk_p50_ms', atMost: 25 },
  ],

  async prepare(stage, scale) {
    const plans = scale.pick({ quick: 20_000, full: 1_000_000 })
    return { on: `${counted(plans)} plans`, contestants: await passes(stage, scale, plans, 'alike') }
  },
}

export const plunge: Row = {
  name: 'plunge',
  what: 'a tick after a plunge: every plan fires, limit prices in no order',
  main: 'per_second',
  ratios: [
    ...RAW_RATIOS,
    {
      name: 'rate to a tenth of the plans',
      better: 'more',
      of: (seen) => seen('ours', 'per_second') / seen('ours, a tenth of the plans', 'per_second'),
    },
  ],
  goals: [
    { figure: 'per_second', atLeast: 30_000 },
    { ratio: 'rate to a tenth of the plans', atLeast: 0.9 },
  ],

  async prepare(stage, scale) {
    const plans = scale.pick({ quick: 20_000, full: 1_000_000 })
    const { on } = scale
    const { database } = await on.ofPlans(stage, template(plans / 10, 'scattered'))
    const fewer: Contestant = {
      name: 'ours, a tenth of the plans',
      role: 'ours',
      take: () => firing(on, database, { plans: plans / 10 }),
    }
    const contestants = await passes(stage, scale, plans, 'scattered')
    return { on: `${counted(plans)} plans`, contestants: contestants.toSpliced(1, 0, fewer) }
  },
}

/** For a server alone: on a file one tick keeps all others out. */
export const passTogether: Row = {
  name: 'pass-together',
  what: `${TOGETHER} ticks at once, in processes of their own, in which every plan fires`,
  main: 'per_second',
  ratios: [],
  goals: [],

  async prepare(stage, { on, pick }) {
    const plans = pick({ quick: 60_000, full: 1_000_000 })
    const { database } = await on.ofPlans(stage, template(plans, 'alike'))
    const raw = await on.raw(stage)
    return {
      on: `${counted(plans)} plans`,
      contestants: [
        { name: 'ours', role: 'ours', take: () => firing(on, database, { plans, tickers: TOGETHER }) },
        { name: 'ours, one tick', role: 'ours', take: () => firing(on, database, { plans }) },
        byHand(on, raw, { database, plans, connections: TOGETHER }),
      ],
    }
  },
}

// A pass that fires nothing, over few plans and over many. A tick is mostly its start, in which a millisecond more
// would not show: so this is the source, in a process of its own, from the lock to the report.

export const idlePass: Row = {
  name: 'idle-pass',
  what: 'a pass that fires nothing, without the start of a process; first with the most plans',
  main: 'ms',
  ratios: [
    {
      name: 'the most to the fewest plans',
      better: 'less',
      of: (seen) => seen('ours', 'ms') / seen('ours, 10,000', 'ms'),
    },
    {
      name: 'CPU, the most to the fewest plans',
      better: 'less',
      isSteady: true,
      of: (seen) => seen('ours', 'cpu_us') / seen('ours, 10,000', 'cpu_us'),
    },
  ],
  goals: [{ ratio: 'the most to the fewest plans', atMost: 1.5 }],

  async prepare(stage, { on, pick }) {
    const sizes = pick({ quick: [10_000, 200_000], full: [10_000, 1_000_000, 10_000_000] })
    const most = Math.max(...sizes)
    const contestants: Contestant[] = []
    for (const plans of sizes) {
      const name = plans === most ? 'ours' : `ours, ${counted(plans)}`
      contestants.unshift({ name, role: 'ours', take: await idle(stage, on, plans) })
    }
    return { on: `${sizes.map(counted).join(', ')} plans`, contestants }
  },
}

async function idle(stage: Stage, on: Backend, plans: number): Promise<Contestant['take']> {
  const template = { name: `idle-${plans}`, users: 1000, plans, limits: 'in turns' } as const
  const { database } = await on.ofPlans(stage, template)
  const inside = await startHelper<InsideJob, InsideDone>(stage, join(import.meta.dirname, '../inside.ts'))
  const take = async () => {
    const { ms, cpuMs } = await inside.ask({ work: 'idle passes', database })
    return { ms, cpu_us: 1000 * cpuMs }
  }
  await take()
  return take
}

// A day of a service: plans, a pass each minute, a partner that polls and confirms. The clock is that of a sandbox,
// moved on minute by minute with the program's own command.

const CONNECTIONS = 16
const USERS = 1_000
const CALLS = ['POST plans', 'GET executions/due', 'POST confirm'] as const

type Size = { plans: number; minutes: number }
type Times = Record<(typeof CALLS)[number], number[]>

export const day: Row = {
  name: 'day',
  what: 'simulated hours of daily plans, a pass each minute, a partner that polls and confirms',
  main: 'p99_ms',
  fullOnly: true,
  roundsMax: 1,
  ratios: [],
  goals: [{ figure: 'errors', atMost: 0 }],

  async prepare(stage, { on, pick }) {
    const size = pick({ quick: { plans: 500, minutes: 10 }, full: { plans: 100_000, minutes: 24 * 60 } })
    const times: Times = { 'POST plans': [], 'GET executions/due': [], 'POST confirm': [] }
    const ofCall = (call: (typeof CALLS)[number]): Contestant => ({
      name: call,
      role: 'ours',
      take: async () => ({ p50_ms: percentile(times[call], 0.5), p99_ms: percentile(times[call], 0.99) }),
    })
    return {
      on: `${counted(size.plans)} daily plans, ${size.minutes} minutes`,
      contestants: [
        { name: 'ours', role: 'ours', take: () => live(stage, on, { ...size, times }) },
        ...CALLS.map(ofCall),
      ],
    }
  },
}

/** Lives the day. Its calls take their times into `times`; what it answers is what is left at the end. */
async function live(
  stage: Stage,
  on: Backend,
  { plans, minutes, times }: Size & { times: Times },
): Promise<Figures> {
  const place = { name: 'day', users: USERS, environment: 'test' } as const
  const { database, key } = await on.ofUsers(stage, place)
  const [served, load] = [await serve(stage, database), await startLoad(stage)]
  const ids = join(stage.folder, 'ids')
  let errors = 0
  const note = (call: keyof Times, ms: readonly number[]): void => {
    times[call] = times[call].concat(ms)
  }

  async function createPlans(): Promise<void> {
    const lines = Array.from(
      { length: plans },
      (_, i) => `"partner_user_id":"u${1 + (i % USERS)}","partner_plan_id":"plan-${i}"`,
    )
    writeFileSync(ids, lines.join('\n'))
    const created = await load(served, {
      connections: CONNECTIONS,
      method: 'POST',
      path: '/partner/v1/plans',
      headers: { authorization: `Bearer ${key}` },
      body: '{$ID,"amount_usd":"60.00","frequency":"daily"}',
      calls: plans,
      ids,
      onTimes: (ms) => note('POST plans', ms),
    })
    errors += created.errors ?? 0
  }

  /** What the partner does after each pass. A part of each instruction counts as bought, whatever its amount. */
  async function pollAndConfirm(minute: number): Promise<void> {
    const { ids: due, timesMs } = await pollAll(served, key)
    note('GET executions/due', timesMs)
    if (due.length === 0) return
    const own = `${ids}-${minute}`
    writeFileSync(own, due.join('\n'))
    const call = confirmations(key, own, Math.min(CONNECTIONS, due.length))(due.length, 0)
    const confirmed = await load(served, {
      ...call,
      body: call.body.replace('filled', 'partial').replace('10.00', '1.00'),
      onTimes: (ms) => note('POST confirm', ms),
    })
    errors += confirmed.errors ?? 0
  }

  await createPlans()
  const path = syntheticPath(1, minutes) as Price[]
  for (const [minute, price] of path.entries()) {
    await run(database, ['sandbox', 'advance', 'acme', '1m', '--price', formatPrice(price)])
    await pollAndConfirm(minute)
  }
  return {
    errors,
    file_mib: await on.sizeMib(database),
    resident_mib: residentMib(served.pid),
    peak_mib: peakMib(served.pid),
  }
}

// How the cost of everything that a scheduler does grows with the plans in the file.

const SIZES = { quick: [2_000, 10_000, 30_000], full: [10_000, 1_000_000, 10_000_000] }
const named = (size: number): string => `ours, ${counted(size)} plans`

/** What the largest costs, as a multiple of the smallest. */
const growth = (figure: 'ms' | 'idle_ms' | 'cpu_us') => (seen: Seen) => {
  const sizes = Object.values(SIZES).find(([least]) => Number.isFinite(seen(named(least ?? 0), figure))) ?? []
  return seen(named(Math.max(...sizes)), figure) / seen(named(Math.min(...sizes)), figure)
}

export const growthOfPlans: Row = {
  name: 'growth',
  what: 'a start of serve, an idle tick, a tick in which every plan fires, and the file, by number of plans',
  main: 'per_second',
  roundsMax: 3,
  ratios: [
    { name: 'idle tick, the most to the fewest plans', better: 'less', of: growth('idle_ms') },
    { name: 'time of a tranche, the most to the fewest plans', better: 'less', of: growth('ms') },
    {
      name: 'CPU of a tranche, the most to the fewest plans',
      better: 'less',
      isSteady: true,
      of: growth('cpu_us'),
    },
  ],
  goals: [
    { ratio: 'idle tick, the most to the fewest plans', atMost: 1.5 },
    { ratio: 'time of a tranche, the most to the fewest plans', atMost: 1.5 },
  ],

  async prepare(stage, { on, pick }) {
    const sizes = pick(SIZES)
    const contestants: Contestant[] = []
    for (const plans of sizes)
      contestants.push({ name: named(plans), role: 'ours', take: await grown(stage, on, plans) })
    return { on: `${sizes.map((size) => counted(size)).join(', ')} plans`, contestants }
  },
}

async function grown(stage: Stage, on: Backend, plans: number): Promise<Contestant['take']> {
  const template = { name: `plans-${plans}`, users: 1000, plans, limits: 'in turns' } as const
  const { database } = await on.ofPlans(stage, template)
  const size: Figure = on.store === 'file' ? 'file_mib' : 'database_mib'
  return async () => {
    const copy = await on.copyOf(database, `idle-${plans}`)
    const served = await serve(stage, copy)
    await served.end()
    const idle = await run(copy, ['tick', '--price', '60000'])
    const fired = await firing(on, database, { plans })
    return {
      ...fired,
      start_ms: served.startMs,
      idle_ms: idle.ms,
      ms: 1000 / (fired.per_second ?? Number.NaN),
      [size]: await on.sizeMib(database),
    }
  }
}
