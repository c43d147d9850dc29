// A process that is connected to a server and has nothing to do.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { openStore } from '../../src/store/postgres/open.ts'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { T0 } from './world.ts'

/** After so long the driver ends connections that nobody uses. */
const IDLE_MAX_MS = 10_000

test('a process that nobody calls is still seen to use its database', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const url = await ownDatabase(`${temporaryFolder(t)}/quiet`)
  const store = await openStore(url, { clock: () => T0, create: false })
  t.after(() => store.close())
  await Promise.all([store.readScheduler(), store.readScheduler()])
  await pause(IDLE_MAX_MS + 1_000)
  const { rows } = await (async () => {
    const other = openPool(url, { max: 1 })
    try {
      return await other.query(
        `select from pg_locks join pg_database d on d.oid = database
         where locktype = 'advisory' and classid = ${LOCK.use} and datname = current_database() and pid <> pg_backend_pid()`,
      )
    } finally {
      await other.end()
    }
  })()
  assert.equal(rows.length, 1)
})
