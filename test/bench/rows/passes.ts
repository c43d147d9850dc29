// Ticks in which every plan fires, with limit prices in the order of the file or in none at all, and passes that fire
// nothing, over few plans and over many.

import type { Layout } from '../../support/large-database.ts'
import { type Backend, plansWith } from '../backend.ts'
import { startHelper, startRaw } from '../helper.ts'
import type { InsideJob } from '../inside.ts'
import { forEach, type Run, run } from '../program.ts'
import { counted, cpuOf, type Figures, multiple, type Row, rateTo, type Take } from '../row.ts'

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
      const take = () => inside.ask({ database })
      await take()
      return take
    }
    return {
      on: `${counted(most)} plans`,
      contestants: { ours: await idle(most), [`ours, ${counted(FEW)}`]: await idle(FEW) },
    }
  },
}

export const PASSES = [pass, plunge, idlePass]
