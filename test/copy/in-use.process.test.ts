// What somebody uses is not replaced, however quiet they are.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import { ourServer } from '../support/postgres-server.ts'
import { startServe } from '../support/process.ts'
import { hasTool } from '../support/tools.ts'
import { until } from '../support/within.ts'
import { ends } from './ends.ts'

test('a server that a quiet service uses is not replaced', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { shell, file, beside, onServer, on, refused } = await ends(t)
  const url = onServer('quiet')
  await on(file, 'copy', '--to', url)
  await on(url, 'backup', beside('before.db'))
  await startServe(t, [], { cwd: shell.folder, env: { TRANCHE_DB: url } })
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
})

test('whoever holds the lock of users counts as one, by whatever name', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { file, beside, onServer, on, refused } = await ends(t)
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
  await on(url, 'restore', beside('before.db'), '--force')
})
