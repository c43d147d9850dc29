// Orders that two hosts hear crosswise on PostgreSQL: each waits for the other's at most once.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Execution } from '../../src/core/execution.ts'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { temporaryFolder } from '../support/database.ts'
import { ourServer, ownDatabase } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { filled, link, poll, populate, report, sendPlan, T0, tick } from './world.ts'

test('two hosts that hear of the same orders in another turn each make no deadlock of it', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { folder } = await ourServer()
  const log = (): string => readFileSync(join(folder, 'log'), 'utf8')
  // Other tests share the server, and some of them make deadlocks.
  const before = log().length
  const url = await ownDatabase(temporaryFolder(t))
  const { machine } = machineAt(T0)
  const [here, there] = await Promise.all(
    [1, 2].map(() => openStore(url, { clock: machine.clock, create: false })),
  )
  assert.ok(here && there)
  t.after(() => Promise.all([here.close(), there.close()]))
  const { acme } = await populate(here)
  await link(here, acme)
  for (let i = 0; i < 7; i++) await sendPlan(here, acme, { partnerPlanId: `p${i}` })
  await tick({ store: here, machine }, '60000')
  const [held, ...due] = await poll(here, acme)
  assert.ok(held && due.length === 6)

  const pool = openPool(url, { max: 2 })
  t.after(() => pool.end())
  const holder = await pool.connect()
  await holder.query('begin')
  // A caller that comes to this order waits for it.
  await holder.query(
    `insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, recorded_at, digest)
     select execution_id, tenant_id, plan_id, 1, 'middle', 'failed', $2, repeat('0', 64)
     from executions where execution_id = $1`,
    [held.executionId, T0],
  )
  const orders = ['first', 'middle', 'last']
  const confirming = [
    ...orders.map((order, i) => [here, due[i] as Execution, order] as const),
    ...orders.toReversed().map((order, i) => [there, due[3 + i] as Execution, order] as const),
  ].map(([store, one, order]) => report(store, acme, one.executionId, filled(one.amount, order)))
  while ((await pool.query('select from pg_locks where not granted')).rowCount !== 2) await sleep(10)
  await holder.query('rollback')
  holder.release()
  const made = await Promise.all(confirming)
  assert.deepEqual(made.map(({ kind }) => kind).sort(), [
    ...orders.map(() => 'recorded'),
    ...orders.map(() => 'refused'),
  ])
  assert.doesNotMatch(log().slice(before), /deadlock detected/)
})
