// What somebody uses is not replaced, however quiet they are; and a process that finds another database under the name
// writes nothing into it.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { Problem } from '../../src/core/problem.ts'
import { LOCK, stayInUse } from '../../src/store/postgres/server/locks.ts'
import { ourServer } from '../support/postgres-server.ts'
import { startServe } from '../support/process.ts'
import { AUDIT, USER } from '../support/service.ts'
import { hasTool } from '../support/tools.ts'
import { until } from '../support/within.ts'
import { ends } from './ends.ts'

test('a server that a quiet service uses is not replaced, and one that was is not written by it', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { shell, keys, file, beside, onServer, on, refused } = await ends(t)
  const url = onServer('quiet')
  await on(file, 'copy', '--to', url)
  await on(url, 'backup', beside('before.db'))
  const served = await startServe(t, [], { cwd: shell.folder, env: { TRANCHE_DB: url } })
  const link = (name: string) =>
    fetch(`${served.url}/partner/v1/users`, {
      method: 'POST',
      headers: { authorization: `Bearer ${keys[0]}`, connection: 'close' },
      body: JSON.stringify({ ...USER, partner_user_id: name }),
    })
  assert.equal((await link('first')).status, 200)

  const server = await ourServer()
  const database = new URL(url).pathname.slice(1)
  const sessions = () =>
    server.ask<{ pid: number }>(
      `select pid from pg_locks where locktype = 'advisory' and granted and classid = ${LOCK.use}
         and database = (select oid from pg_database where datname = '${database}')`,
    )
  const end = (pids: { pid: number }[]) =>
    server.ask(`select pg_terminate_backend(pid) from unnest(array[${pids.map(({ pid }) => pid)}]) pid`)
  const had = await sessions()
  assert.notEqual(had.length, 0)
  await end(had)
  await until(20_000, 'the service is back by itself', async () => {
    const now = await sessions()
    return now.some(({ pid }) => !had.some((before) => before.pid === pid))
  })
  const inUse = await refused(url, 'restore', beside('before.db'), '--force')
  assert.deepEqual([inUse.exit, inUse.code], [11, 'database_in_use'])

  // It cannot be back as long as it is stopped.
  served.child.kill('SIGSTOP')
  await end(await sessions())
  await on(url, 'restore', beside('before.db'), '--force')
  served.child.kill('SIGCONT')
  const answer = await link('second')
  assert.equal(answer.status, 503)
  assert.match(await answer.text(), /has lost its database/)
  await served.line('was replaced while it was open')
  assert.equal((await fetch(`${served.url}/readyz`)).status, 503)
  const linked = await server.ask(
    `select from tranche.users where partner_user_id in ('first', 'second')`,
    database,
  )
  assert.equal(linked.length, 0)
  assert.equal((await link('third')).status, 503)
})

test('a process that holds the lock counts as a user, by whatever name, and writes into no other database', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { file, beside, onServer, on, refused, open } = await ends(t)
  const url = onServer('named')
  await on(file, 'copy', '--to', url)
  await on(url, 'backup', beside('before.db'))
  const user = new pg.Client({ connectionString: url, application_name: 'host-x' })
  await user.connect()
  try {
    await user.query(`select pg_advisory_lock_shared(${LOCK.use}, 0)`)
    const { exit, code } = await refused(url, 'restore', beside('before.db'), '--force')
    assert.deepEqual([exit, code], [11, 'database_in_use'])
  } finally {
    await user.end()
  }
  const { replaced } = JSON.parse(await on(url, 'restore', beside('before.db'), '--force', '--json'))

  // Somebody who knows better gives the name to another one under a process that has it open.
  const store = await open(url)
  const { ask } = await ourServer()
  const database = new URL(url).pathname.slice(1)
  await ask(
    `begin; alter schema tranche rename to opened; alter schema ${replaced} rename to tranche; commit`,
    database,
  )
  for (const slug of ['one', 'two'])
    await assert.rejects(
      store.addPartner({ partnerSlug: slug, name: slug }, AUDIT),
      (error) => error instanceof Problem && error.code === 'database_gone',
    )
  const added = await ask(`select from tranche.partners where partner_slug in ('one', 'two')`, database)
  assert.equal(added.length, 0)
})

test('a pool that tells twice of a session that it has gone is not asked for sessions without end', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const server = await ourServer()
  const pool = new pg.Pool({ connectionString: server.url('postgres') })
  t.after(() => pool.end())
  stayInUse(pool)
  const sessions = [await pool.connect(), await pool.connect()]
  for (const session of sessions) session.release()
  for (const session of sessions) pool.emit('remove', session)
  // This is never over in a process that asks without end.
  await setTimeout(20)
  assert.equal(pool.totalCount, 2)
})
