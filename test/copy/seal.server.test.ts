// A sealed database takes no write, from nobody, and says where it has moved to; what it takes up to then is in the
// copy.

import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { periodOf } from '../../src/core/month.ts'
import { Problem } from '../../src/core/problem.ts'
import { DAY_MS } from '../../src/core/time.ts'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import type { Store } from '../../src/store/store.ts'
import { start, startServe } from '../support/process.ts'
import { AUDIT } from '../support/service.ts'
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
  return { ...all, source: url, target: all.beside("moved $sealed$ 100% \\ isn't.db") }
}

const isSealed = (error: unknown): boolean => error instanceof Problem && error.code === 'database_sealed'

/** Tries to change every table there is, past the program. Answers those that let it. */
async function openTables(source: string): Promise<string[]> {
  const open: string[] = []
  const changes = (table: string) => [
    `delete from ${table}`,
    `update ${table} set ${FIRST} = ${FIRST}`,
    `insert into ${table} select * from ${table}`,
  ]
  if (!source.startsWith('postgres')) {
    const db = openFile(source)
    const tables = db.prepare("select name from sqlite_schema where type = 'table'").pluck().all() as string[]
    for (const table of tables) {
      const guards = db.prepare(
        "select count(*) from sqlite_schema where type = 'trigger' and tbl_name = ? and name glob 'sealed_*'",
      )
      assert.equal(guards.pluck().get(table), 3n, table)
      const column = db.prepare('select name from pragma_table_info(?) limit 1').pluck().get(table)
      // A trigger fires for rows: a table without any refuses the first one that comes.
      if (db.prepare(`select count(*) from ${table}`).pluck().get() === 0n) continue
      for (const change of changes(table))
        if (lets(() => db.exec(change.replaceAll(FIRST, String(column))))) open.push(`${table}: ${change}`)
    }
    db.close()
    return open
  }
  const client = new pg.Client({ connectionString: source })
  await client.connect()
  try {
    const { rows } = await client.query(
      `select relname, (select attname from pg_attribute where attrelid = c.oid and attnum = 1) as first
       from pg_class c where relnamespace = 'tranche'::regnamespace and relkind = 'r'`,
    )
    await client.query('set search_path = tranche')
    for (const { relname, first } of rows as { relname: string; first: string }[])
      for (const change of [...changes(relname), `truncate ${relname} cascade`])
        await client.query(change.replaceAll(FIRST, first)).then(
          () => open.push(`${relname}: ${change}`),
          ({ message }: Error) => {
            // What another rule refuses, the seal has let pass.
            if (!IS_SEALED.test(message)) open.push(`${relname}: ${change}: ${message}`)
          },
        )
  } finally {
    await client.end()
  }
  return open
}
const FIRST = 'FIRST_COLUMN'
const IS_SEALED = /^This database is sealed: it moved to /

function lets(work: () => void): boolean {
  try {
    work()
    return true
  } catch (error) {
    if (!IS_SEALED.test((error as Error).message)) throw error
    return false
  }
}

/** Adds partners one after the other until that is refused; answers those that were added. */
async function writeUntilSealed(store: Store, name: string, begun: () => void): Promise<string[]> {
  const added: string[] = []
  for (;;) {
    const partnerSlug = `${name}-${added.length}`
    try {
      await store.addPartner({ partnerSlug, name: 'Written' }, AUDIT)
      added.push(partnerSlug)
      begun()
    } catch (error) {
      // It is held while it is copied; a caller that was told to wait tries again.
      if (error instanceof Problem && error.code === 'database_locked') continue
      assert.ok(isSealed(error), String(error))
      return added
    }
  }
}

suite('seal', { concurrency: 2 }, () => {
  for (const kind of KINDS) {
    test(`${kind} that is sealed refuses every write of every table, no matter who makes it, and can still be read`, async (t) => {
      const { shell, source, target, on, refused, open } = await moving(t, kind)
      const before = await open(source)
      await before.addPartner({ partnerSlug: 'idle', name: 'Idle' }, AUDIT)
      const printed = JSON.parse(
        await on('none', 'copy', '--from', source, '--to', target, '--seal', '--json'),
      )
      assert.match(printed.sealed_at, /^20/)
      assert.deepEqual(await openTables(source), [])
      await assert.rejects(before.addPartner({ partnerSlug: 'late', name: 'Late' }, AUDIT), isSealed)

      const idle = await before.findTenant('idle', 'live')
      assert.ok(idle)
      // Nothing is due of it, and so nothing would be written.
      await assert.rejects(
        before.deliverDue(idle, 1, (seen) => seen),
        isSealed,
      )

      const tick = await refused(source, 'tick', '--price', '60000')
      assert.deepEqual([tick.exit, tick.code], [5, 'database_sealed'])
      assert.ok(tick.message.includes(`it moved to ${target}`), tick.message)
      assert.equal(
        (await refused(source, 'partner', 'create', 'late', '--name', 'Late')).code,
        'database_sealed',
      )
      assert.equal(
        await on(source, 'partner', 'list', '--json'),
        await on(target, 'partner', 'list', '--json'),
      )
      const { findings } = JSON.parse(await on(source, 'check', '--json'))
      const sealed = findings.find(({ kind }: { kind: string }) => kind === 'database_sealed')
      assert.equal(sealed?.level, 'warning')
      assert.ok(sealed.message.includes(target))
      assert.ok((await on(source, 'status')).includes(target))
      const { err } = await shell.tranche(['--db', source, 'migrate', '--status'])
      assert.ok(err.includes(`warning: This database is sealed: it moved to ${target}`), err)
      for (const argv of [
        ['billing', 'show', '--month', '2026-03'],
        ['billing', 'export', '--month', '2026-03'],
        ['billing', 'reconcile', '--month', '2026-03'],
        ['partner', 'list'],
        ['audit'],
      ]) {
        const said = await shell.tranche(['--db', source, ...argv])
        assert.equal(said.code, 0, said.err)
        assert.equal(
          said.err.split(`warning: This database is sealed: it moved to ${target}`).length,
          2,
          said.err,
        )
        assert.doesNotMatch(said.err, /tranche tick/)
      }
      for (const argv of [['status'], ['check'], ['migrate']])
        assert.doesNotMatch((await shell.tranche(['--db', source, ...argv])).err, /warning: .*warning: /s)
      const serve = await startServe(t, ['--db', source], { cwd: shell.folder })
      const told = JSON.parse(await serve.line('is sealed'))
      assert.equal(told.level, 'warn')
      assert.ok(told.msg.includes(`it moved to ${target}`), told.msg)
      serve.child.kill('SIGTERM')
      assert.equal(await serve.ended, 0)
      // Only the target of the first copy is its successor.
      const other = await refused(source, 'copy', '--to', `${t.name.length}.db`)
      assert.deepEqual([other.exit, other.code], [5, 'database_sealed'])

      // The copy is not sealed, and goes on.
      await on(target, 'partner', 'create', 'later', '--name', 'Later')

      await on(source, 'copy', '--unseal', '--yes')
      await on(source, 'partner', 'create', 'again', '--name', 'Again')
      assert.match(await on(source, 'audit'), /database\.unseal/)
      await on(source, 'check')
      assert.equal((await refused(source, 'copy', '--unseal', '--yes')).exit, 2)
      await before.addPartner({ partnerSlug: 'third', name: 'Third' }, AUDIT)
    })

    test(`a month that nobody asked for before ${kind} was sealed is answered there, as not final`, async (t) => {
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
      const tenant = await store.findTenant('acme', 'live')
      assert.ok(tenant)
      const march = periodOf('2026-03')
      assert.deepEqual(await store.fixTenantPeriod(tenant, march), { ...march, final: false })
    })

    test(`what ${kind} has answered before its seal is in the copy, whatever goes on meanwhile`, async (t) => {
      const { source, target, on, open } = await moving(t, kind)
      const writers = await Promise.all([open(source), open(source), open(source)])
      const begun = writers.map(() => Promise.withResolvers<void>())
      const written = Promise.all(
        writers.map((store, n) => writeUntilSealed(store, `writer${n}`, () => begun[n]?.resolve())),
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
    test(`the seal of ${kind} does not come off while its copy has yet to get its name`, async (t) => {
      const { source, on, refused, onServer } = await moving(t, kind)
      const target = onServer('named')
      const client = new pg.Client({ connectionString: target })
      await client.connect()
      t.after(() => client.end())
      await client.query(`select pg_advisory_lock(${LOCK.migrate}, 0)`)
      const moved = on('none', 'copy', '--from', source, '--to', target, '--seal')
      moved.catch(() => {})
      const waiting = `select from pg_locks join pg_database on oid = database
        where datname = current_database() and classid = ${LOCK.migrate} and not granted`
      await until(60_000, 'a copy that waits', async () => (await client.query(waiting)).rowCount)
      assert.equal((await refused(source, 'copy', '--unseal', '--yes')).code, 'database_in_use')
      await client.query(`select pg_advisory_unlock(${LOCK.migrate}, 0)`)
      await moved
      await on(source, 'copy', '--unseal', '--yes')
    })

  test('a service on a sealed file answers writes with 503 and reads as before', async (t) => {
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

  test('a restore over a sealed file is refused unless it is asked for, and a sealed backup stays sealed', async (t) => {
    const { file, beside, on, refused } = await ends(t)
    await on(file, 'backup', beside('before.db'))
    await on(file, 'copy', '--to', beside('moved.db'), '--seal')
    await on(file, 'backup', beside('sealed.db'))
    const { exit, code, message } = await refused(file, 'restore', beside('before.db'))
    assert.deepEqual([exit, code], [5, 'database_sealed'])
    assert.match(message, /--force/)
    await on(file, 'restore', beside('sealed.db'), '--force')
    assert.equal((await refused(file, 'tick', '--price', '60000')).code, 'database_sealed')
    assert.match(await on(file, 'audit'), /database\.restore/)
    await on(file, 'restore', beside('before.db'), '--force')
    assert.match(await on(file, 'tick', '--price', '60000', '--json'), /"stands_still":true/)
    await on(file, 'restore', '--resume')
    assert.doesNotMatch(await on(file, 'tick', '--price', '60000', '--json'), /stands_still/)
  })

  test('a program that would have to migrate a sealed database leaves it alone', async (t) => {
    for (const kind of KINDS) {
      const { source, target, on, refused } = await moving(t, kind)
      await on(source, 'copy', '--to', target, '--seal')
      await forgetAMigration(source)
      const { code, message } = await refused(source, 'status')
      assert.equal(code, 'database_sealed', kind)
      assert.match(message, /would have to migrate it/)
    }
  })
})

/** Takes the seal of one table off to make the database look like one of before the last migration. */
async function forgetAMigration(source: string): Promise<void> {
  const forget = 'delete from migrations where name = (select max(name) from migrations)'
  if (!source.startsWith('postgres')) {
    const db = openFile(source)
    db.exec(`drop trigger sealed_migrations_delete; ${forget}`)
    db.close()
    return
  }
  const client = new pg.Client({ connectionString: source })
  await client.connect()
  await client.query(`set search_path = tranche; drop trigger a_sealed on migrations; ${forget}`)
  await client.end()
}

// A copy that is killed: its target is as if it had never begun, its source takes writes or has moved, and the next
// copy does all of it. A restore that is killed leaves what stands still as it is.

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
