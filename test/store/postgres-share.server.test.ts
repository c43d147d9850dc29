// The connections to a server: whatever a tenant's calls wait for, those of the others are answered.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { openStore } from '../../src/store/postgres/open.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { AUDIT, keyFor, link, populate, sendPlan, T0 } from './world.ts'

/** More than there are connections. */
const CROWD = 30
/** Others would wait for ten seconds, and be put off then. */
const SOON_MS = 8_000

test("a crowd of one tenant's calls that all wait keeps nobody else from the server", async (t) => {
  if (!hasTool(t, 'postgres')) return
  const url = await ownDatabase(temporaryFolder(t))
  const store = await openStore(url, { clock: () => T0, create: false })
  t.after(() => store.close())
  const { acme, bolt } = await populate(store)
  for (const tenant of [acme, bolt]) await link(store, tenant)
  await store.addKey(keyFor(bolt, { sha256: 'b'.repeat(64) }), AUDIT)
  const other = openPool(url, { max: 1 })
  const holder = await other.connect()
  t.after(() => {
    holder.release(true)
    return other.end()
  })
  await holder.query('begin')
  await holder.query('select from users where tenant_id = $1 for update', [acme.tenantId])

  const crowd = Array.from({ length: CROWD }, (_, i) => sendPlan(store, acme, { partnerPlanId: `p${i}` }))
  const waiting = 'select count(*) as n from pg_locks where not granted'
  while (((await holder.query(waiting)).rows[0] as { n: bigint }).n < 2n) await pause(10)
  const began = performance.now()
  await sendPlan(store, bolt)
  assert.equal((await store.readPlans(bolt, { after: null, limit: 9 })).length, 1)
  assert.ok(await store.findKey('b'.repeat(64)))
  assert.equal(await store.findWebhook(bolt), null)
  await store.readScheduler()
  assert.ok(performance.now() - began < SOON_MS, `${performance.now() - began} ms`)
  await holder.query('commit')
  await Promise.all(crowd)
  assert.equal((await store.readPlans(acme, { after: null, limit: 99 })).length, CROWD)
})
