// A copy that is killed: its target is as if it had never begun, its source takes writes or has moved, and the next
// copy does all of it. A restore that is killed leaves what stands still as it is.

import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { start } from '../support/process.ts'
import { type Ends, ends } from './ends.ts'

const MIGRATING = 8

/** Starts a copy in a process of its own and kills it as soon as `isTime`. False when it was done before that. */
const killed = (
  t: TestContext,
  all: Ends,
  { from, to, isTime }: { from: string; to: string; isTime: () => Promise<boolean> },
): Promise<boolean> => killedIn(t, all, ['copy', '--from', from, '--to', to, '--seal'], isTime)

async function killedIn(
  t: TestContext,
  { shell }: Ends,
  argv: readonly string[],
  isTime: () => Promise<boolean>,
): Promise<boolean> {
  const command = start(t, argv, { cwd: shell.folder })
  while (!command.hasEnded() && !(await isTime())) await pause(1)
  if (command.hasEnded()) assert.equal(await command.ended, 0, command.err())
  command.child.kill('SIGKILL')
  return (await command.ended) === 'SIGKILL'
}

async function connected(t: TestContext, url: string): Promise<(sql: string) => Promise<boolean>> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  t.after(() => client.end())
  return async (sql) => (await client.query(sql)).rowCount !== 0
}

test('killed while the rows are carried, nothing has changed on either side', async (t) => {
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

/** One that stands still, and the hold that its backup knows nothing of. */
async function heldSince({ shell, on, beside }: Ends, db: string): Promise<string> {
  const copy = beside('last-night.db')
  await on(db, 'backup', copy)
  await on(db, 'partner', 'hold', 'acme')
  await on(db, 'restore', copy, '--force')
  // What is replaced is kept under a name with the time.
  shell.advance(1_000)
  return copy
}

const standsStill = async ({ on }: Ends, db: string): Promise<boolean> =>
  JSON.parse(await on(db, 'tick', '--price', '60000', '--json')).stands_still === true

async function assertCarriedNext(all: Ends, db: string, copy: string): Promise<void> {
  assert.ok(await standsStill(all, db))
  await all.on(db, 'restore', copy, '--force', '--carry-stops')
  assert.ok(await standsStill(all, db))
  const partners = JSON.parse(await all.on(db, 'partner', 'list', '--json')) as {
    partner_slug: string
    held: boolean
  }[]
  assert.equal(partners.find(({ partner_slug }) => partner_slug === 'acme')?.held, true)
}

test('a restore of a file that is killed while it carries stops over leaves a database that stands still', async (t) => {
  const all = await ends(t)
  const { file, beside } = all
  const copy = await heldSince(all, file)
  const kept = () => readdirSync(beside('.')).filter((name) => /\.replaced-[^.]+\.\d+Z$/.test(name)).length
  let kills = 0
  for (let round = 0; kills === 0 && round < 5; round += 1) {
    const before = kept()
    const argv = ['restore', copy, '--db', file, '--carry-stops']
    if (await killedIn(t, all, argv, async () => kept() > before)) kills += 1
    assert.ok(await standsStill(all, file))
  }
  assert.equal(kills, 1)
  await assertCarriedNext(all, file, copy)
})

test('a restore on a server that is killed before its copy has the name leaves one that stands still', async (t) => {
  const all = await ends(t)
  const url = all.onServer('standing')
  await all.on(all.file, 'copy', '--to', url)
  const copy = await heldSince(all, url)
  const asks = await connected(t, url)
  await asks(`select pg_advisory_lock(${MIGRATING}, 0)`)
  const isNaming = () =>
    asks(`select 1 from pg_locks where locktype = 'advisory' and classid = ${MIGRATING} and not granted`)
  const argv = ['restore', copy, '--db', url, '--force', '--carry-stops']
  assert.ok(await killedIn(t, all, argv, isNaming))
  await asks(`select pg_advisory_unlock(${MIGRATING}, 0)`)
  // Its server learns that it is gone when it next speaks to it.
  const isThere = () =>
    asks(`select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
  while (await isThere()) await pause(10)
  await assertCarriedNext(all, url, copy)
})
