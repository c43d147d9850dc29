// A pool between the service and its server: in session mode it does no harm, and in any other it is told from the
// first connection on.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { openStore } from '../../src/store/postgres/open.ts'
import { assertRefused, poolTo, type Server, startServer } from '../support/postgres-server.ts'
import { runHere } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { filled, firstTranche, openWorld, report, tick } from './world.ts'

async function serverOf(t: TestContext): Promise<Server | null> {
  if (!hasTool(t, 'pgbouncer')) return null
  const server = await startServer()
  t.after(server.stop)
  return server
}

const SHARED = {
  exit: 1,
  code: 'storage_failed',
  says: /is behind a pool that .*: tranche needs one in session mode \(in PgBouncer, pool_mode = session\)\.$/,
}

for (const pool_mode of ['transaction', 'statement'])
  test(`a pool in ${pool_mode} mode is refused before anything is written`, async (t) => {
    const server = await serverOf(t)
    if (!server) return
    const url = (await poolTo(t, server, { pool_mode }))('postgres')
    await assertRefused(url, SHARED, ['migrate'])
    await assertRefused(url, SHARED)
    assert.deepEqual(await server.ask(`select 1 from pg_namespace where nspname = 'tranche'`), [])
  })

test('a pool in transaction mode is refused also while others keep its sessions busy', async (t) => {
  const server = await serverOf(t)
  if (!server) return
  const url = (await poolTo(t, server, { pool_mode: 'transaction' }))('postgres')
  let isOver = false
  const busy = Array.from({ length: 12 }, async () => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    while (!isOver) await client.query('select pg_sleep(0.002)')
    await client.end()
  })
  try {
    for (let i = 0; i < 4; i++) await assertRefused(url, SHARED, ['migrate'])
  } finally {
    isOver = true
    await Promise.all(busy)
  }
  assert.deepEqual(await server.ask(`select 1 from pg_namespace where nspname = 'tranche'`), [])
})

test('a pool in session mode that leaves what the one before has set is refused as soon as it does', async (t) => {
  const server = await serverOf(t)
  if (!server) return
  const url = (await poolTo(t, server, { pool_mode: 'session', server_reset_query: '' }))('postgres')
  assert.equal((await runHere(['--db', server.url('postgres'), 'migrate'])).code, 0)
  await runHere(['--db', url, 'partner', 'list'])
  await assertRefused(url, SHARED)
})

test('through a pool in session mode all goes its way, also on the second connection of a session', async (t) => {
  const server = await serverOf(t)
  if (!server) return
  const url = (await poolTo(t, server, { pool_mode: 'session', default_pool_size: '20' }))('postgres')
  const { code, err } = await runHere(['--db', url, 'migrate'])
  assert.equal(code, 0, err)
  const world = await openWorld(t, async (t, clock) => {
    const store = await openStore(url, { clock, create: false })
    t.after(() => store.close())
    return store
  })
  const first = await firstTranche(world)
  await report(world.store, world.acme, first.executionId, filled(first.amount))
  const others = await Promise.all([world.connect(), world.connect()])
  await Promise.all(others.map((store) => store.listPartners()))
  await tick(world, '60000')
  assert.deepEqual(await world.store.findFaults(), [])
  const shown = await runHere(['--db', url, 'partner', 'list', '--json'])
  assert.equal(shown.code, 0, shown.err)
})
