// A poll on PostgreSQL beside others who have locked what it would hand out.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { MINUTE_MS, plus } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { link, poll, populate, sendPlan, T0, tick } from './world.ts'

test('a poll waits for the transaction that holds what is due, and hands out what is due then, in the order of creation', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const url = await ownDatabase(temporaryFolder(t))
  const { machine, setClock } = machineAt(T0)
  const store = await openStore(url, { clock: machine.clock, create: false })
  t.after(() => store.close())
  const { acme } = await populate(store)
  await link(store, acme)
  for (const minutes of [0, -5, 5]) {
    // Set back and on again: then the order of creation is not that of the ids.
    setClock(plus(T0, minutes * MINUTE_MS))
    await sendPlan(store, acme, { partnerPlanId: `p${minutes}` })
    await tick({ store, machine }, '60000')
  }
  const due = await store.listExecutions(
    { slug: null, environment: null, status: null, stuck: false },
    { after: null, limit: 9 },
  )
  const inOrder = due.map(({ executionId }) => executionId)
  assert.equal(due.length, 3)
  const [first, second, third] = inOrder

  const pool = openPool(url, { max: 2 })
  t.after(() => pool.end())
  const holder = await pool.connect()
  await holder.query('begin')
  // As a confirmation that is refused in the end, and one that is not.
  await holder.query('select from executions where execution_id = $1 for no key update', [first])
  await holder.query(
    `update executions set status = 'sent', delivered_count = 1, lease_expires_at = $2 where execution_id = $1`,
    [third, T0 + 60 * MINUTE_MS],
  )
  const polled = poll(store, acme)
  let isAnswered = false
  void polled.then(() => {
    isAnswered = true
  })
  while (!isAnswered && (await pool.query('select from pg_locks where not granted')).rowCount === 0)
    await sleep(10)
  await holder.query('commit')
  holder.release()
  assert.deepEqual(
    (await polled).map(({ executionId }) => executionId),
    [second, first],
  )
})
