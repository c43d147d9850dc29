// Readiness while a server does not answer: what is asked takes no longer than what is written.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStore } from '../../src/store/postgres/open.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { LOCK_WAIT_MAX_MS } from '../../src/store/postgres/server/session.ts'
import { startMonitored } from '../http/monitored.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'

test('ready: a read that waits at the server is answered for as soon as a write that does', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const url = await ownDatabase(temporaryFolder(t))
  const store = await openStore(url, { clock: null, create: false })
  const pool = openPool(url, { max: 1 })
  t.after(() => Promise.all([store.close(), pool.end()]))
  const { opsUrl } = await startMonitored(t, { watched: () => store })
  const holder = await pool.connect()
  await holder.query('begin; lock table ticks in access exclusive mode')
  const asked = performance.now()
  const answer = await fetch(`${opsUrl}/readyz`)
  const tookMs = performance.now() - asked
  await holder.query('commit')
  holder.release()
  assert.equal(answer.status, 503)
  const { reasons } = (await answer.json()) as { reasons: string[] }
  assert.match(reasons.join(), /cannot be read: it has not answered for more than 2 s/)
  assert.ok(tookMs < LOCK_WAIT_MAX_MS / 2, `it took ${Math.round(tookMs)} ms`)
})
