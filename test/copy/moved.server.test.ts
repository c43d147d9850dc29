// A moved database accepts no write of any process and names its new place; every write before the move is in the copy.

import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { periodOf } from '../../src/core/month.ts'
import { Problem } from '../../src/core/problem.ts'
import { DAY_MS, formatInstant } from '../../src/core/time.ts'
import type { Store } from '../../src/store/store.ts'
import { lay } from '../releases/release.ts'
import { tamper } from '../store/copies.ts'
import { poll } from '../store/world.ts'
import { start } from '../support/process.ts'
import { AUDIT, openShell, succeed, T0 } from '../support/service.ts'
import { until } from '../support/within.ts'
import { type Ends, ends } from './ends.ts'

type Kind = 'a file' | 'a server'
const KINDS: Kind[] = ['a file', 'a server']

/** A database of that kind to copy, and a place for its copy of the other kind. */
async function moving(t: TestContext, kind: Kind): Promise<Ends & { source: string; target: string }> {
  const all = await ends(t)
  const url = all.onServer('moving')
  if (kind === 'a file') return { ...all, source: all.file, target: url }
  await all.on(all.file, 'copy', '--to', url)
  return { ...all, source: url, target: all.beside("moved $away$ 100% \\ isn't.db") }
}

const copying = (from: string, to: string) => ['copy', '--from', from, '--to', to, '--seal']

const isMoved = (error: unknown): boolean => error instanceof Problem && error.code === 'database_moved'

/** Adds partners one after the other until one is refused; answers those that were added. */
async function writeUntilMoved(store: Store, name: string, begun: () => void): Promise<string[]> {
  const added: string[] = []
  for (;;) {
    const partnerSlug = `${name}-${added.length}`
    try {
      await store.addPartner({ partnerSlug, name: 'Written' }, AUDIT)
      added.push(partnerSlug)
      begun()
    } catch (error) {
      // The database is locked during the copy; a caller that was told to wait tries again.
      if (error instanceof Problem && error.code === 'database_locked') continue
      assert.ok(isMoved(error), String(error))
      return added
    }
  }
}

suite('moved', { concurrency: 2 }, () => {
  for (const kind of KINDS) {
    test(`${kind} that has moved refuses what had it open and whatever opens it, and can still be read`, async (t) => {
      const { shell, source, target, on, refused, open, frozenKind } = await moving(t, kind)
      const before = await open(source)
      await before.addPartner({ partnerSlug: 'idle', name: 'Idle' }, AUDIT)
      const copied = await on('none', ...copying(source, target), '--json')
      assert.match(JSON.parse(copied).sealed_at, /^20/)
      await assert.rejects(before.addPartner({ partnerSlug: 'late', name: 'Late' }, AUDIT), isMoved)

      const idle = (await before.findTenant('idle', 'live')) ?? assert.fail('not there')
      // Nothing is due in it, and so nothing would be written.
      await assert.rejects(poll(before, idle), isMoved)
      const tick = await refused(source, 'tick', '--price', '60000')
      assert.deepEqual([tick.exit, tick.code], [5, 'database_moved'])
      assert.ok(tick.message.includes(`moved to ${target}`), tick.message)
      const late = await refused(source, 'partner', 'create', 'late', '--name', 'Late')
      assert.equal(late.code, 'database_moved')
      const partners = (db: string) => on(db, 'partner', 'list', '--json')
      assert.equal(await partners(source), await partners(target))
      assert.equal(JSON.parse(await on(source, 'status', '--json')).frozen.kind, 'moved')
      for (const argv of [
        ['migrate', '--status'],
        ['billing', 'export', '--month', '2026-03'],
      ]) {
        const { err } = await shell.tranche(['--db', source, ...argv])
        assert.equal(err.split(`warning: This database moved to ${target}`).length, 2, err)
        assert.doesNotMatch(err, /tranche tick|warning: .*warning: /s)
      }
      // Only the target of the first copy is its successor.
      const other = await refused(source, 'copy', '--to', `${t.name.length}.db`)
      assert.deepEqual([other.exit, other.code], [5, 'database_moved'])

      assert.equal((await refused(source, 'resume', '--yes')).code, 'database_moved')

      // The copy is not frozen, and accepts writes.
      await on(target, 'partner', 'create', 'later', '--name', 'Later')
      assert.equal(await frozenKind(target), null)

      await on(source, 'copy', '--unseal', '--yes')
      await on(source, 'partner', 'create', 'again', '--name', 'Again')
      assert.match(await on(source, 'audit'), /database\.freeze[\s\S]*database\.unseal/)
      // Frozen until somebody has made sure that nothing uses the copy.
      assert.equal(await frozenKind(source), 'operator')
      await on(source, 'resume', '--yes')
      assert.equal(await frozenKind(source), null)
      await on(source, 'check')
      assert.equal((await refused(source, 'copy', '--unseal', '--yes')).exit, 2)
      await before.addPartner({ partnerSlug: 'third', name: 'Third' }, AUDIT)
    })

    test(`a month that nobody asked for before ${kind} moved is answered there, as not final`, async (t) => {
      const { shell, source, target, on, open } = await moving(t, kind)
      shell.advance(60 * DAY_MS)
      await on(source, 'tick', '--price', '60000')
      await on(source, 'copy', '--to', target, '--seal')
      for (const command of ['show', 'export', 'reconcile']) {
        const said = await shell.tranche(['--db', source, 'billing', command, '--month', '2026-03'])
        assert.equal(said.code, 0, said.err)
        assert.match(said.err, /2026-03 was not closed when this database moved/)
      }
      const store = await open(source)
      const tenant = (await store.findTenant('acme', 'live')) ?? assert.fail('not there')
      const march = periodOf('2026-03')
      assert.deepEqual(await store.fixTenantPeriod(tenant, march), { ...march, final: false })
    })

    test(`what ${kind} has answered before it moves is in the copy, whatever goes on meanwhile`, async (t) => {
      const { source, target, on, open } = await moving(t, kind)
      const writers = await Promise.all([open(source), open(source), open(source)])
      const begun = writers.map(() => Promise.withResolvers<void>())
      const written = Promise.all(
        writers.map((store, n) => writeUntilMoved(store, `writer${n}`, () => begun[n]?.resolve())),
      )
      await Promise.all(begun.map(({ promise }) => promise))
      await on(source, 'copy', '--to', target, '--seal')
      const copied = JSON.parse(await on(target, 'partner', 'list', '--json')) as { partner_slug: string }[]
      const found = copied.map(({ partner_slug }) => partner_slug).filter((slug) => slug.startsWith('writer'))
      const answered = (await written).flat()
      assert.ok(answered.length >= writers.length)
      assert.deepEqual(found.toSorted(), answered.toSorted())
    })
  }

  for (const kind of KINDS)
    test(`${kind} is not taken back while its copy has yet to get its name`, async (t) => {
      const { source, on, refused, onServer } = await moving(t, kind)
      const target = onServer('named')
      const { isNaming, goOn } = await withoutName(t, target)
      const moved = on('none', ...copying(source, target))
      moved.catch(() => {})
      await until(60_000, 'a copy that waits', isNaming)
      assert.equal((await refused(source, 'copy', '--unseal', '--yes')).code, 'database_in_use')
      await goOn()
      await moved
      await on(source, 'copy', '--unseal', '--yes')
    })

  test('a service on a file that has moved answers writes with 503 and reads as before', async (t) => {
    const { shell, keys, file, beside, on } = await ends(t)
    const [key = ''] = keys
    const call = (method: string, path: string, body?: string) =>
      shell.call(method, `/partner/v1${path}`, key, body)
    assert.equal((await call('GET', '/me')).status, 200)
    await on(file, 'copy', '--to', beside('moved.db'), '--seal')
    const poll = await call('GET', '/executions/due')
    const disable = await call('PATCH', '/users/ana', JSON.stringify({ status: 'disabled' }))
    for (const { status, text } of [poll, disable]) {
      assert.equal(status, 503, text)
      assert.match(text, /moved to another database/)
      assert.doesNotMatch(text, /moved\.db/)
    }
    for (const path of ['/me', '/billing/monthly?month=2026-01'])
      assert.equal((await call('GET', path)).status, 200)
  })

  test('a restore over a file that has moved is refused unless it is asked for, and one of its backups always', async (t) => {
    const { file, beside, on, refused, frozenKind } = await ends(t)
    await on(file, 'backup', beside('before.db'))
    await on(file, 'copy', '--to', beside('moved.db'), '--seal')
    await on(file, 'backup', beside('moved-backup.db'))
    const { exit, code, message } = await refused(file, 'restore', beside('before.db'))
    assert.deepEqual([exit, code], [5, 'database_moved'])
    assert.match(message, /--force/)
    const backup = await refused(file, 'restore', beside('moved-backup.db'), '--force')
    assert.deepEqual([backup.exit, backup.code], [5, 'database_moved'])
    assert.match(backup.message, /copy --unseal` on this copy first/)
    assert.equal((await refused(file, 'tick', '--price', '60000')).code, 'database_moved')
    await on(beside('moved-backup.db'), 'copy', '--unseal', '--yes')
    await on(file, 'restore', beside('moved-backup.db'), '--force')
    assert.equal(await frozenKind(file), 'restored')
    await on(file, 'resume', '--yes')
    assert.equal(await frozenKind(file), null)
  })

  for (const kind of KINDS)
    test(`a copy and a backup of ${kind} that is frozen are frozen until each is resumed, also when it moves`, async (t) => {
      const { source, target, on, frozenKind, beside } = await moving(t, kind)
      const frozenOf = async (db: string) => JSON.parse(await on(db, 'status', '--json')).frozen
      await on(source, 'freeze', '--reason', 'the venue is wrong')
      const frozen = await frozenOf(source)
      assert.deepEqual([frozen.kind, frozen.reason], ['operator', 'the venue is wrong'])
      await on(source, 'copy', '--to', beside('other.db'))
      await on(source, 'backup', beside('backup.db'))
      await on(source, 'copy', '--to', target, '--seal')
      for (const db of [beside('other.db'), beside('backup.db'), target]) {
        assert.deepEqual(await frozenOf(db), frozen)
        await on(db, 'resume', '--yes')
        assert.equal(await frozenKind(db), null)
      }
      assert.equal((await frozenOf(source)).kind, 'moved')
    })

  test('what an earlier version has moved is left alone by one that would have to migrate it', async (t) => {
    for (const kind of KINDS) {
      const { source, refused } = await movedByEarlier(t, kind)
      for (const words of ['status', 'copy --unseal --yes', 'copy --to moved.db --seal']) {
        const { exit, code, message } = await refused(source, ...words.split(' '))
        assert.deepEqual([exit, code], [5, 'database_moved'], `${kind}: ${words}: ${message}`)
        assert.match(message, /moved to elsewhere\.db and takes no more writes/)
        assert.match(message, /would have to migrate it/)
      }
    }
  })

  test('what an earlier version had standing still is frozen, and has every name that it had replaced', async (t) => {
    const shell = openShell(t)
    lay(RELEASE, shell)
    tamper(shell.file, `insert into standstill values (1, ${T0}, 'last-night.db', '["was.db"]')`)
    const { kind, at, reason } = JSON.parse(await succeed(shell, 'status', '--json')).frozen
    assert.deepEqual([kind, at, reason], ['restored', formatInstant(T0), 'restored from last-night.db'])
    await succeed(shell, 'resume', '--yes')
    const { action, detail } = JSON.parse(await succeed(shell, 'audit', '--json')).at(-1)
    assert.deepEqual([action, detail.replaced], ['database.resume', ['was.db']])
  })
})

const RELEASE = join(import.meta.dirname, '../../fixtures/releases/1.0.0')

/** A database that an earlier version has sealed. */
async function movedByEarlier(t: TestContext, kind: Kind) {
  const all = await ends(t)
  const sealed = `insert into sealed values (1, ${T0}, 'elsewhere.db')`
  if (kind === 'a file') {
    lay(RELEASE, all.shell)
    tamper(all.file, sealed)
    return { ...all, source: all.file }
  }
  const source = all.onServer('earlier')
  await all.on(all.file, 'copy', '--to', source)
  const client = new pg.Client({ connectionString: source })
  await client.connect()
  await client.query(`set search_path = tranche; drop table frozen, server_line;
    delete from migrations where name = '0021_frozen.sql'; ${sealed}`)
  await client.end()
  return { ...all, source }
}

// A killed copy: its target is as if the copy had never begun, its source accepts writes or has moved, and the next
// copy does everything. A killed restore leaves a frozen database as it is.

/** Runs a command in a process of its own and kills it as soon as `isTime`. False when it ended before that. */
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

/** The lock that every version takes before a copy gets its name: two versions exclude each other by it. */
const MIGRATING = 8

/** No copy takes the name of this database until it may go on. */
async function withoutName(t: TestContext, url: string) {
  const asks = await connected(t, url)
  await asks(`select pg_advisory_lock(${MIGRATING}, 0)`)
  const isNaming = () =>
    asks(`select from pg_locks join pg_database on oid = database where datname = current_database()
      and locktype = 'advisory' and classid = ${MIGRATING} and not granted`)
  return { asks, isNaming, goOn: () => asks(`select pg_advisory_unlock(${MIGRATING}, 0)`) }
}

test('killed while the rows are carried, nothing has changed on either side', async (t) => {
  const all = await ends(t)
  const { file, beside, on, refused, onServer } = all
  const moved = beside('moved.db')
  const partials = () => readdirSync(beside('.')).filter((name) => name.startsWith('moved.db.'))
  assert.ok(await killedIn(t, all, copying(file, moved), async () => partials().length > 0))
  assert.ok(!existsSync(moved))
  await on(file, 'tick', '--price', '60000')

  const url = onServer('killed')
  const asks = await connected(t, url)
  const isCopying = () =>
    asks("select 1 from pg_stat_activity where state = 'active' and query ~ '^copy .* from stdin'")
  assert.ok(await killedIn(t, all, copying(file, url), isCopying))
  assert.equal((await refused(url, 'status')).code, 'database_not_found')
  await on(file, 'tick', '--price', '60000')

  await on(file, 'copy', '--to', url)
  await on(url, 'copy', '--to', moved)
  assert.deepEqual(partials(), [])
})

test('killed between the freeze and the name, the source has moved, and the same copy ends the move', async (t) => {
  const all = await ends(t)
  const { file, on, refused, onServer, beside, frozenKind } = all
  const url = onServer('named')
  const { isNaming, goOn } = await withoutName(t, url)
  assert.ok(await killedIn(t, all, copying(file, url), isNaming))
  await goOn()
  assert.equal((await refused(url, 'status')).code, 'database_not_found')
  assert.equal((await refused(file, 'tick', '--price', '60000')).code, 'database_moved')
  assert.equal((await refused(file, 'copy', '--to', beside('other.db'))).code, 'database_moved')
  await on(file, 'copy', '--to', url, '--seal')
  // No record remains of whether the source was frozen before it moved.
  assert.equal(await frozenKind(url), 'operator')
  await on(url, 'resume', '--yes')
  assert.equal(await frozenKind(url), null)
})

/** A frozen database, and a hold newer than its backup. */
async function heldSince({ shell, on, beside }: Ends, db: string): Promise<string> {
  const copy = beside('last-night.db')
  await on(db, 'backup', copy)
  await on(db, 'partner', 'hold', 'acme')
  await on(db, 'restore', copy, '--force')
  // The replaced database is stored under a name with the time.
  shell.advance(1_000)
  return copy
}

async function assertCarriedNext(all: Ends, db: string, copy: string): Promise<void> {
  assert.equal(await all.frozenKind(db), 'restored')
  await all.on(db, 'restore', copy, '--force')
  assert.equal(await all.frozenKind(db), 'restored')
  const partners: { partner_slug: string; held: boolean }[] = JSON.parse(
    await all.on(db, 'partner', 'list', '--json'),
  )
  assert.equal(partners.find(({ partner_slug }) => partner_slug === 'acme')?.held, true)
}

test('a restore of a file that is killed while it carries stops over leaves a frozen database', async (t) => {
  const all = await ends(t)
  const { file, beside } = all
  const copy = await heldSince(all, file)
  const kept = () => readdirSync(beside('.')).filter((name) => /\.replaced-[^.]+\.\d+Z$/.test(name)).length
  let kills = 0
  for (let round = 0; kills === 0 && round < 5; round += 1) {
    const before = kept()
    if (await killedIn(t, all, ['restore', copy, '--db', file], async () => kept() > before)) kills += 1
    assert.equal(await all.frozenKind(file), 'restored')
  }
  assert.equal(kills, 1)
  await assertCarriedNext(all, file, copy)
})

test('a restore on a server that is killed before its copy has the name leaves a frozen one', async (t) => {
  const all = await ends(t)
  const url = all.onServer('restoring')
  await all.on(all.file, 'copy', '--to', url)
  const copy = await heldSince(all, url)
  const { asks, isNaming, goOn } = await withoutName(t, url)
  assert.ok(await killedIn(t, all, ['restore', copy, '--db', url, '--force'], isNaming))
  await goOn()
  // Its server learns of its end when it next speaks to it.
  const isThere = () =>
    asks(`select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
  while (await isThere()) await pause(10)
  await assertCarriedNext(all, url, copy)
})
