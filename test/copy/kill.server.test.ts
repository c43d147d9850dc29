// A copy that is killed: its target is as if it had never begun, its source takes writes or has moved, and the next
// copy does all of it.

import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { start } from '../support/process.ts'
import { hasTool } from '../support/tools.ts'
import { type Ends, ends } from './ends.ts'

const MIGRATING = 8

/** Starts a copy in a process of its own and kills it as soon as `isTime`. False when it was done before that. */
async function killed(
  t: TestContext,
  { shell }: Ends,
  { from, to, isTime }: { from: string; to: string; isTime: () => Promise<boolean> },
): Promise<boolean> {
  const copy = start(t, ['copy', '--from', from, '--to', to, '--seal'], { cwd: shell.folder })
  while (!copy.hasEnded() && !(await isTime())) await pause(1)
  if (copy.hasEnded()) assert.equal(await copy.ended, 0, copy.err())
  copy.child.kill('SIGKILL')
  return (await copy.ended) === 'SIGKILL'
}

async function connected(t: TestContext, url: string): Promise<(sql: string) => Promise<boolean>> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  t.after(() => client.end())
  return async (sql) => (await client.query(sql)).rowCount !== 0
}

test('killed while the rows are carried, nothing has changed on either side', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const all = await ends(t)
  const { file, beside, on, refused, onServer } = all
  const moved = beside('moved.db')
  const partials = () => readdirSync(beside('.')).filter((name) => name.startsWith('moved.db.'))
  assert.ok(await killed(t, all, { from: file, to: moved, isTime: async () => partials().length > 0 }))
  assert.ok(!existsSync(moved))
  await on(file, 'tick', '--price', '60000')

  const url = onServer('killed')
  const asks = await connected(t, url)
  const isCopying = () =>
    asks("select 1 from pg_stat_activity where state = 'active' and query ~ '^copy .* from stdin'")
  assert.ok(await killed(t, all, { from: file, to: url, isTime: isCopying }))
  assert.equal((await refused(url, 'status')).code, 'database_not_found')
  await on(file, 'tick', '--price', '60000')

  await on(file, 'copy', '--to', url)
  await on(url, 'copy', '--to', moved)
  assert.deepEqual(partials(), [])
})

test('killed between the seal and the name, the source is sealed, and the same copy ends the move', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const all = await ends(t)
  const { file, on, refused, onServer, beside } = all
  const url = onServer('named')
  const asks = await connected(t, url)
  await asks(`select pg_advisory_lock(${MIGRATING}, 0)`)
  const isNaming = () =>
    asks(`select 1 from pg_locks where locktype = 'advisory' and classid = ${MIGRATING} and not granted`)
  assert.ok(await killed(t, all, { from: file, to: url, isTime: isNaming }))
  await asks(`select pg_advisory_unlock(${MIGRATING}, 0)`)
  assert.equal((await refused(url, 'status')).code, 'database_not_found')
  assert.equal((await refused(file, 'tick', '--price', '60000')).code, 'database_sealed')
  assert.equal((await refused(file, 'copy', '--to', beside('other.db'))).code, 'database_sealed')
  await on(file, 'copy', '--to', url, '--seal')
  await on(url, 'tick', '--price', '60000')
})
