// A tick in which every plan fires: with limit prices in the order of the file, and after a plunge through prices that
// lie in no order at all.

import type { Layout } from '../../support/large-database.ts'
import { CommitWatch } from '../commit-watch.ts'
import { copyOf, databaseOfPlans } from '../database.ts'
import { known } from '../process-cost.ts'
import { tick } from '../program.ts'
import { cpuOf, rateTo } from '../ratios.ts'
import { type Raw, startRaw } from '../raw.ts'
import type { Contestant, Figures, Row } from '../row.ts'
import { counted } from '../words.ts'

/** Below every limit. */
const PLUNGE = ['--price', '40000']
const PER_COMMIT = 1_000

/** A tick that fires all plans of a copy of `file`. Throws when it does not. */
export async function firing(file: string, plans: number): Promise<Figures> {
  const copy = copyOf(file, 'ours.db')
  const commits = new CommitWatch(copy)
  const { tick: told, cpuMs, peakMib } = await tick(copy, PLUNGE).finally(() => commits.end())
  if (told.executions_created !== plans)
    throw new Error(`${told.executions_created} of ${plans} plans have fired`)
  return known({
    per_second: (1000 * plans) / told.duration_ms,
    cpu_us: (1000 * cpuMs) / plans,
    chunk_p50_ms: commits.between(0.5),
    chunk_max_ms: commits.between(1),
    peak_mib: peakMib,
  })
}

const RAW = 'raw, in the order of the file'
const RAW_RATIOS = [rateTo('raw', RAW), cpuOf('raw', RAW)]

const byHand = (raw: Raw, file: string, plans: number): Contestant => ({
  name: RAW,
  role: 'floor',
  take: () => raw({ work: 'pass', file: copyOf(file, 'raw.db'), count: plans, perCommit: PER_COMMIT }),
})

const template = (plans: number, limits: Layout['limits']) =>
  ({ name: `${limits}-${plans}.db`, users: 1000, plans, limits }) as const

export const pass: Row = {
  name: 'pass',
  what: 'a tick in which every plan fires',
  main: 'per_second',
  ratios: RAW_RATIOS,
  goals: [
    { figure: 'per_second', atLeast: 60_000 },
    { figure: 'chunk_p50_ms', atMost: 25 },
  ],

  async prepare(stage, { pick }) {
    const plans = pick({ quick: 20_000, full: 1_000_000 })
    const { file } = await databaseOfPlans(stage, template(plans, 'alike'))
    const raw = await startRaw(stage)
    return {
      on: `${counted(plans)} plans`,
      contestants: [
        { name: 'ours', role: 'ours', take: () => firing(file, plans) },
        byHand(raw, file, plans),
      ],
    }
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

  async prepare(stage, { pick }) {
    const plans = pick({ quick: 20_000, full: 1_000_000 })
    const { file } = await databaseOfPlans(stage, template(plans, 'scattered'))
    const { file: fewer } = await databaseOfPlans(stage, template(plans / 10, 'scattered'))
    const raw = await startRaw(stage)
    return {
      on: `${counted(plans)} plans`,
      contestants: [
        { name: 'ours', role: 'ours', take: () => firing(file, plans) },
        { name: 'ours, a tenth of the plans', role: 'ours', take: () => firing(fewer, plans / 10) },
        byHand(raw, file, plans),
      ],
    }
  },
}
