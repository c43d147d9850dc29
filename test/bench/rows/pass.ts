// A tick in which every plan fires: with limit prices in the order of the file, and after a plunge through prices that
// lie in no order at all.

import type { Layout } from '../../support/large-rows.ts'
import type { Backend, Raw } from '../backend.ts'
import { ours, withWal } from '../ours.ts'
import { cpuUsOfEnded, databaseCpuUs, known } from '../process-cost.ts'
import { type Ticked, tick } from '../program.ts'
import { cpuOf, rateTo } from '../ratios.ts'
import type { Contestant, Figures, Row, Scale, Stage } from '../row.ts'
import { counted } from '../words.ts'

/** Below every limit. */
const PLUNGE = ['--price', '40000']
/** By hand as many as ours has in a transaction. */
export const PER_COMMIT = { file: 1_000, postgres: 250 }

/** A tick that fires all plans of a copy of a database, or several at once. Throws when they do not. */
export async function firing(
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
