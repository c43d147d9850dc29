// New plans, each with its first window and schedule.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addUsers, fill } from '../../support/large-database.ts'
import { copyOf, emptyDatabase, settle } from '../database.ts'
import { startLoad } from '../loading.ts'
import { serve } from '../program.ts'
import { startRaw } from '../raw.ts'
import type { Row } from '../row.ts'
import { counted } from '../words.ts'
import { byHand, calledOnly, WRITE_RATIOS } from '../write-floors.ts'

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

  async prepare(stage, { rounds, pick }) {
    const calls = pick({ quick: 4_800, full: 60_000 })
    const { file, key, tenantId } = await emptyDatabase(stage, { name: 'template.db' })
    fill(file, (db) => addUsers(db, { tenantId, users: USERS }))
    settle(file)
    const ids = join(stage.folder, 'ids')
    const count = WARM_UP + rounds * calls
    const lines = Array.from(
      { length: count },
      (_, i) => `"partner_user_id":"u${1 + (i % USERS)}","partner_plan_id":"plan-${i}"`,
    )
    writeFileSync(ids, lines.join('\n'))
    const created = (calls: number, from: number) => ({
      connections: CONNECTIONS,
      method: 'POST' as const,
      path: '/partner/v1/plans',
      headers: { authorization: `Bearer ${key}` },
      body: '{$ID,"amount_usd":"60.00","frequency":"daily"}',
      calls,
      ids,
      from,
    })
    const [load, raw] = [await startLoad(stage), await startRaw(stage)]
    const served = await serve(stage, copyOf(file, 'ours.db'))
    await load(served, created(WARM_UP, 0))
    return {
      on: `${counted(USERS)} users, ${counted(calls)} plans a turn`,
      contestants: [
        {
          name: 'ours',
          role: 'ours',
          take: (round) => load(served, created(calls, WARM_UP + round * calls)),
        },
        ...byHand({ raw, work: 'plans', file, calls }, CONNECTIONS),
        ...(await calledOnly(stage, load, created(calls, 0))),
      ],
    }
  },
}
