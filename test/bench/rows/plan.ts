// New plans, each with its first window and schedule.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startLoad } from '../loading.ts'
import { ours, withWal } from '../ours.ts'
import { serve } from '../program.ts'
import type { Row } from '../row.ts'
import { counted } from '../words.ts'
import { byHand, calledOnly, MANY, WRITE_RATIOS } from '../write-floors.ts'

const CONNECTIONS = 64
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
