// How the cost of everything that a scheduler does grows with the plans in the file.

import type { Backend } from '../backend.ts'
import { run, serve } from '../program.ts'
import type { Contestant, Figure, Row, Seen, Stage } from '../row.ts'
import { counted } from '../words.ts'
import { firing } from './pass.ts'

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
