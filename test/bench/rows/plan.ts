// New plans, each with its first window and schedule.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addUsers, fill } from '../../support/large-database.ts'
import { startBare } from '../bare-server.ts'
import { copyOf, emptyDatabase, settle } from '../database.ts'
import { startLoad } from '../loading.ts'
import { serve } from '../program.ts'
import { startRaw } from '../raw.ts'
import type { Row } from '../row.ts'
import { inSeries } from '../statistics.ts'

const CONNECTIONS = 64
const SHARED = 64
const USERS = 1_000
const WARM_UP = 3_000

export const plan: Row = {
  name: 'plan',
  what: `POST plans, new ones, ${CONNECTIONS} connections`,
  main: 'per_second',
  ratios: [
    {
      name: `rate to h3 and raw, ${SHARED} a commit, in series`,
      better: 'more',
      of: (seen) =>
        seen('ours', 'per_second') /
        inSeries(seen('h3', 'per_second'), seen(`raw, ${SHARED} a commit`, 'per_second')),
    },
    {
      name: 'CPU of h3 and raw to ours',
      better: 'more',
      isSteady: true,
      of: (seen) =>
        (seen('h3', 'cpu_us') + seen(`raw, ${SHARED} a commit`, 'cpu_us')) / seen('ours', 'cpu_us'),
    },
  ],
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
    const [served, h3] = [await serve(stage, copyOf(file, 'ours.db')), await startBare(stage, 'h3')]
    await load(served, created(WARM_UP, 0))
    await load(h3, created(calls, 0))
    const byHand = (perCommit: number) => () =>
      // One sync each takes its time: fewer of them tell the rate.
      raw({
        work: 'plans',
        file: copyOf(file, 'raw.db'),
        count: perCommit === 1 ? calls / 6 : calls,
        perCommit,
      })
    return {
      on: `${USERS.toLocaleString('en-US')} users, ${calls.toLocaleString('en-US')} plans a turn`,
      contestants: [
        {
          name: 'ours',
          role: 'ours',
          take: (round) => load(served, created(calls, WARM_UP + round * calls)),
        },
        { name: 'raw, one a commit', role: 'floor', take: byHand(1) },
        { name: `raw, ${SHARED} a commit`, role: 'floor', take: byHand(SHARED) },
        { name: 'h3', role: 'floor', take: () => load(h3, created(calls, 0)) },
      ],
    }
  },
}
