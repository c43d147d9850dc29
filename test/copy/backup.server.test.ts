// backup and restore of a database on a server: a file of SQLite's, and back.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { ourServer } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { ends } from './ends.ts'

test('a backup of a server is a file that serves, and restores into a server', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { file, beside, onServer, on, refused } = await ends(t)
  const [url, fresh] = [onServer('backed-up'), onServer('fresh')]
  await on(file, 'copy', '--to', url)
  const copy = beside('backup.db')
  const { bytes } = JSON.parse(await on(url, 'backup', copy, '--json'))
  assert.ok(bytes > 100_000)
  assert.equal(await on(copy, 'plan', 'list', '--json'), await on(url, 'plan', 'list', '--json'))
  assert.equal((await refused(url, 'backup', copy)).code, 'file_exists')
  await on(url, 'backup', copy, '--force')

  await on(fresh, 'restore', copy)
  assert.equal(await on(fresh, 'plan', 'list', '--json'), await on(url, 'plan', 'list', '--json'))
  assert.match(await on(fresh, 'audit'), /database\.restore/)
  await on(fresh, 'check')

  // What is there gives way only when asked to, and is kept.
  await on(url, 'partner', 'create', 'later', '--name', 'Later')
  const { exit, code, message } = await refused(url, 'restore', copy)
  assert.deepEqual([exit, code], [5, 'database_exists'])
  assert.match(message, /--force puts the copy in its place/)
  assert.match(await on(url, 'partner', 'list'), /later/)
  const restored = JSON.parse(await on(url, 'restore', copy, '--force', '--json'))
  assert.doesNotMatch(await on(url, 'partner', 'list'), /later/)
  const server = await ourServer()
  const database = new URL(url).pathname.slice(1)
  const kept = await server.ask(
    `select partner_slug from ${restored.replaced}.partners where partner_slug = 'later'`,
    database,
  )
  assert.equal(kept.length, 1)
})

test('a database on a server that somebody uses is not replaced, and a sealed one stays sealed in its backup', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { file, beside, onServer, on, refused, open } = await ends(t)
  const url = onServer('used')
  await on(file, 'copy', '--to', url)
  await on(url, 'backup', beside('before.db'))
  const store = await open(url)
  await store.findTenant('acme', 'live')
  const inUse = await refused(url, 'restore', beside('before.db'), '--force')
  assert.deepEqual([inUse.exit, inUse.code], [11, 'database_in_use'])
  await store.close()

  await on(url, 'copy', '--to', beside('moved.db'), '--seal')
  await on(url, 'backup', beside('sealed.db'))
  assert.equal((await refused(beside('sealed.db'), 'tick', '--price', '1')).code, 'database_sealed')
  await on(url, 'restore', beside('sealed.db'), '--force')
  assert.equal((await refused(url, 'tick', '--price', '1')).code, 'database_sealed')
  await on(url, 'restore', beside('before.db'), '--force')
  await on(url, 'tick', '--price', '60000')
  writeFileSync(beside('none.db'), '')
  const missing = await refused(url, 'restore', beside('none.db'), '--force')
  assert.deepEqual([missing.exit, missing.message], [4, `There is no file ${beside('none.db')}.`])
})
