// A pass that fires nothing, over few plans and over many. A tick is mostly its start, in which a millisecond more
// would not show: so this is the source, in a process of its own, from the lock to the report.

import { join } from 'node:path'
import type { Backend } from '../backend.ts'
import { startHelper } from '../helper.ts'
import type { InsideDone, InsideJob } from '../inside.ts'
import type { Contestant, Row, Stage } from '../row.ts'
import { counted } from '../words.ts'

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
