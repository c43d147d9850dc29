// A day of a service: plans, a pass each minute, a partner that polls and confirms. The clock is that of a sandbox,
// moved on minute by minute with the program's own command.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { syntheticPath } from '../../../src/cli/trial/simulated-partner.ts'
import { formatPrice, type Price } from '../../../src/core/money.ts'
import type { Backend } from '../backend.ts'
import { startLoad } from '../loading.ts'
import { pollAll } from '../partner.ts'
import { peakMib, residentMib } from '../process-cost.ts'
import { run, serve } from '../program.ts'
import type { Contestant, Figures, Row, Stage } from '../row.ts'
import { percentile } from '../statistics.ts'
import { counted } from '../words.ts'
import { confirmations } from './confirm.ts'

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
