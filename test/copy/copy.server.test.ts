// Copies of a whole database to a server and from it: while it is in use, on a standby, and by backup and restore.

import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { databaseOf } from '../../src/cli/context.ts'
import { copyDatabase } from '../../src/copy.ts'
import { Problem } from '../../src/core/problem.ts'
import { machineAt } from '../../src/machine.ts'
import { holdServer } from '../../src/store/postgres/copy-server.ts'
import { commitAlone } from '../../src/store/postgres/server/commit.ts'
import { LOCK, stayInUse } from '../../src/store/postgres/server/locks.ts'
import { openAlone } from '../../src/store/postgres/server/pool.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { TABLES } from '../../src/store/tables.ts'
import { tamper } from '../store/copies.ts'
import { AUDIT, each, noted, populate, T0 } from '../store/world.ts'
import { temporaryFolder } from '../support/database.ts'
import { assertNotToldAlone, followed, ourPair, ourServer, ownDatabase } from '../support/postgres-server.ts'
import { startServe } from '../support/process.ts'
import { AUDIT as SHELL_AUDIT, USER } from '../support/service.ts'
import { until } from '../support/within.ts'
import { ends } from './ends.ts'

type Printed = {
  rows: number
  closed_months: number
  sealed_at: string | null
  tables: { name: string; rows: number }[]
}

const bytes = (file: string): Buffer => readFileSync(file)

/** Text and numbers in every form that a line of a copy could mistake. */
const NASTY = [
  '\\N',
  '\\',
  'a\tb\\tc',
  'two\nlines\r\n',
  '\b\f\v',
  '',
  ' ',
  'Ünï ☃ 𝄞',
  '\\\\n',
  '\'quoted"',
  '\u0001\u007f\u0085',
]
const REALS = [0, 1e-7, 1.5e-300, 1e21, 123456789.12345679, 0.1, 5e-324, 1.7976931348623157e308]

function makeNasty(file: string): void {
  const db = openFile(file)
  const tenant = db.prepare('select min(tenant_id) from tenants').pluck().get()
  const add = db.prepare(
    `insert into users (tenant_id, partner_user_id, email, consent_version, consent_timestamp, status, created_at, updated_at)
     values (?, ?, ?, ?, ?, 'linked', 0, 0)`,
  )
  for (const [n, text] of NASTY.entries())
    add.run(tenant, `nasty-${n} ${text}`, text, text, 2n ** 62n + BigInt(n))
  const sandbox = db.prepare("select min(tenant_id) from tenants where environment = 'test'").pluck().get()
  db.prepare("insert into sandboxes (tenant_id, environment, used_until) values (?, 'test', 7)").run(sandbox)
  const keep = db.prepare('insert into used_before_reset values (?, ?, ?)')
  for (const [n, text] of NASTY.entries()) keep.run(sandbox, text, n)
  const set = db.prepare('update schedules set reference_price = 1, half_width = ? where plan_id = ?')
  const plans = db.prepare('select plan_id from schedules order by plan_id limit ?').pluck().all(REALS.length)
  assert.equal(plans.length, REALS.length)
  for (const [n, plan] of plans.entries()) set.run(REALS[n], plan)
  db.close()
}

suite('copy', { concurrency: 2 }, () => {
  test('there and back, over any road, is the same bytes', async (t) => {
    const { file, beside, onServer, on, refused } = await ends(t)
    makeNasty(file)
    const [one, two] = [onServer('one'), onServer('two')]
    const printed: Printed = JSON.parse(await on('none', 'copy', '--from', file, '--to', one, '--json'))
    assert.equal(printed.closed_months, 2)
    assert.equal(printed.sealed_at, null)
    assert.deepEqual(each(printed.tables, 'name'), each(TABLES, 'name'))
    for (const name of ['users', 'plans', 'windows', 'executions', 'trades', 'audit', 'ticks'])
      assert.ok((printed.tables.find((table) => table.name === name)?.rows ?? 0) > 5, name)
    await on('none', 'copy', '--from', one, '--to', two)
    await on('none', 'copy', '--from', two, '--to', beside('far.db'))
    // Either end may be the database of --db.
    await on(one, 'copy', '--to', beside('near.db'))
    await on(file, 'copy', '--to', beside('straight.db'))
    const straight = bytes(beside('straight.db'))
    for (const name of ['far.db', 'near.db'])
      assert.equal(Buffer.compare(bytes(beside(name)), straight), 0, name)
    await on('none', 'copy', '--from', beside('near.db'), '--to', beside('again.db'))
    assert.equal(Buffer.compare(bytes(beside('again.db')), straight), 0)
    assert.equal(statSync(beside('far.db')).mode & 0o777, 0o600)

    const copied = openFile(beside('straight.db'))
    const users = copied
      .prepare("select email from users where partner_user_id glob 'nasty-*' order by user_id")
      .pluck()
    assert.deepEqual(users.all(), NASTY)
    const kept = copied.prepare('select partner_plan_id from used_before_reset order by window_start').pluck()
    assert.deepEqual(kept.all(), NASTY)
    assert.equal(copied.prepare('select used_until from sandboxes').pluck().get(), 7n)
    const widths = copied
      .prepare('select half_width from schedules where reference_price = 1 order by plan_id')
      .pluck()
    assert.deepEqual(widths.all(), REALS)
    copied.close()
    const strays = readdirSync(beside('.')).filter((name) => /partial|-wal|-shm|-owner/.test(name))
    assert.deepEqual(strays, [])

    for (const taken of [one, beside('far.db')]) {
      const { exit, code } = await refused('none', 'copy', '--from', file, '--to', taken)
      assert.deepEqual([exit, code], [5, 'database_exists'])
    }
  })

  test('a copy on a server is a service: it is sound, polls, and numbers what is added behind what it has', async (t) => {
    const { file, onServer, on, open, shell } = await ends(t)
    const url = onServer('served')
    await on(file, 'copy', '--to', url)
    assert.equal(await on(url, 'partner', 'list', '--json'), await on(file, 'partner', 'list', '--json'))
    assert.equal(await on(url, 'plan', 'list', '--json'), await on(file, 'plan', 'list', '--json'))
    await on(url, 'partner', 'create', 'later', '--name', 'Later')
    shell.advance(3_600_000)
    assert.ok(JSON.parse(await on(url, 'tick', '--price', '60000', '--json')).executions_created > 0)
    assert.equal((await (await open(url)).findFaults()).length, 0)
  })

  test('nothing is copied while a change of a partner has not reached all of its plans: a tick sees to that', async (t) => {
    const { file, onServer, on, refused, beside, ask } = await ends(t)
    const url = onServer('behind')
    await on(file, 'copy', '--to', url)
    await ask(
      url,
      'insert into tranche.schedules_behind (partner_slug) select min(partner_slug) from tranche.partners',
    )
    const early = await refused(url, 'copy', '--to', beside('early.db'))
    assert.deepEqual([early.exit, early.code], [11, 'database_in_use'])
    assert.match(early.message, /has not reached all of its plans yet: wait for it, or run a tick first\.$/)
    await on(url, 'tick', '--price', '60000')
    await on(url, 'copy', '--to', beside('then.db'))
  })

  test('nothing is copied that the check finds wrong, and nothing is left of it', async (t) => {
    const { file, beside, onServer, refused, ask } = await ends(t)
    tamper(file, 'update windows set spent = spent + 1, budget = budget + 1 where window_id = 1')
    const url = onServer('faulty')
    for (const to of [url, beside('faulty.db')]) {
      const { exit, code, message } = await refused(file, 'copy', '--to', to)
      assert.deepEqual([exit, code], [1, 'bad_file'])
      assert.match(
        message,
        /The check finds \d+ faults? in .*window_spent.*: run `tranche --db \S+ check`\.$/,
      )
    }
    // The schema of erasures stays beside every replaced database.
    const left = `nspname ~ 'tranche' and nspname <> 'tranche_erasures'`
    assert.deepEqual(await ask(url, `select nspname from pg_namespace where ${left}`), [])
    const strays = readdirSync(beside('.')).filter((name) => name.includes('faulty'))
    assert.deepEqual(strays, [])
  })

  test('a command line that names no two databases is a mistake, and a file that is in the way is kept', async (t) => {
    const { file, beside, refused } = await ends(t)
    for (const argv of [
      ['copy'],
      ['copy', '--to', file],
      ['copy', '--unseal', '--to', beside('x.db')],
      ['copy', '--unseal'],
    ])
      assert.deepEqual([(await refused(file, ...argv)).exit, argv], [2, argv])
    assert.equal((await refused('none.db', 'copy', '--to', beside('x.db'))).exit, 4)
    writeFileSync(beside('taken'), 'precious')
    assert.equal((await refused(file, 'copy', '--to', beside('taken'))).code, 'database_exists')
    assert.equal(readFileSync(beside('taken'), 'utf8'), 'precious')
    assert.ok(!existsSync(beside('x.db')))
  })

  test('what a server cannot keep is named, and nothing is there', async (t) => {
    const { file, onServer, refused } = await ends(t)
    tamper(file, "update users set email = 'a' || char(0) || 'b' where user_id = 1")
    const url = onServer('nul')
    const { code, message } = await refused(file, 'copy', '--to', url)
    assert.equal(code, 'bad_file')
    assert.match(message, /cannot keep a row of users/)
    assert.equal((await refused(url, 'status')).code, 'database_not_found')
  })
})

// A database in use is not replaced, even by quiet processes; and a process that finds another database under the name
// writes nothing into it.

test('a server that a quiet service uses is not replaced, and one that was is not written by it', async (t) => {
  const { shell, keys, file, beside, onServer, on, refused, ask } = await ends(t)
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

  const sessions = () =>
    ask<{ pid: number }>(
      url,
      `select pid from pg_locks where locktype = 'advisory' and granted and classid = ${LOCK.use}
         and database = (select oid from pg_database where datname = current_database())`,
    )
  const end = (pids: { pid: number }[]) =>
    ask(url, `select pg_terminate_backend(pid) from unnest(array[${pids.map(({ pid }) => pid)}]) pid`)
  const had = await sessions()
  assert.notEqual(had.length, 0)
  await end(had)
  await until(20_000, 'the service is back by itself', async () => {
    const now = await sessions()
    return now.some(({ pid }) => !had.some((before) => before.pid === pid))
  })
  const inUse = await refused(url, 'restore', beside('before.db'), '--force')
  assert.deepEqual([inUse.exit, inUse.code], [11, 'database_in_use'])

  // The service cannot reconnect while it is stopped.
  served.child.kill('SIGSTOP')
  await end(await sessions())
  await on(url, 'restore', beside('before.db'), '--force')
  served.child.kill('SIGCONT')
  const answer = await link('second')
  assert.equal(answer.status, 503)
  assert.match(await answer.text(), /has lost its database/)
  await served.line('was replaced while it was open')
  assert.equal((await fetch(`${served.url}/readyz`)).status, 503)
  const linked = await ask(url, `select from tranche.users where partner_user_id in ('first', 'second')`)
  assert.deepEqual(linked, [])
  assert.equal((await link('third')).status, 503)
})

test('a process that holds the lock counts as a user, by whatever name, and writes into no other database', async (t) => {
  const { file, beside, onServer, on, refused, open, ask } = await ends(t)
  const url = onServer('named')
  await on(file, 'copy', '--to', url)
  await on(url, 'backup', beside('before.db'))
  const user = new pg.Client({ connectionString: url, application_name: 'host-x' })
  await user.connect()
  try {
    await user.query(`select pg_advisory_lock_shared(${LOCK.use}, 0)`)
    const { exit, code, message } = await refused(url, 'restore', beside('before.db'), '--force')
    assert.deepEqual([exit, code], [11, 'database_in_use'])
    assert.match(message, /in use by host-x \(tranche, from this machine, process \d+ of the server\): stop/)
  } finally {
    await user.end()
  }
  const { replaced } = JSON.parse(await on(url, 'restore', beside('before.db'), '--force', '--json'))

  // Somebody gives the name to another database under a process that has it open.
  const store = await open(url)
  const exchange = `alter schema tranche rename to opened; alter schema ${replaced} rename to tranche`
  await ask(url, `begin; ${exchange}; commit`)
  for (const slug of ['one', 'two'])
    await assert.rejects(
      store.addPartner({ partnerSlug: slug, name: slug }, SHELL_AUDIT),
      (error) => error instanceof Problem && error.code === 'database_gone',
    )
  assert.deepEqual(await ask(url, `select from tranche.partners where partner_slug in ('one', 'two')`), [])
})

test('a pool that tells twice of a session that it has gone is not asked for sessions without end', async (t) => {
  const pool = new pg.Pool({ connectionString: (await ourServer()).url('postgres') })
  t.after(() => pool.end())
  stayInUse(pool)
  const sessions = [await pool.connect(), await pool.connect()]
  for (const session of sessions) session.release()
  for (const session of sessions) pool.emit('remove', session)
  // This never ends in a process that asks without end.
  await setTimeout(20)
  assert.equal(pool.totalCount, 2)
})

// A move from or to a server whose commits wait for a standby, when somebody cancels such a wait: a commit on one disk
// alone could be lost, and the source would take writes beside its copy.

/** A small database on a primary, an empty one, a place for a file, and a move from one to another. */
async function stage(t: TestContext, name: string) {
  const pair = await ourPair()
  const { machine } = machineAt(T0)
  for (const database of [`${name}_full`, `${name}_empty`])
    await pair.primary.ask(`create database ${database}`)
  const [full, empty] = [pair.primary.url(`${name}_full`), pair.primary.url(`${name}_empty`)]
  const file = join(temporaryFolder(t), 'moved.db')
  const on = (address: string) => databaseOf(address, machine)
  const store = await (await on(full)).open({ create: true })
  await populate(store)
  await store.close()
  /** `verifying` is called when only the freeze and the name are left to commit. */
  const move = async (from: string, to: string, { seal = true, verifying = () => {} } = {}) => {
    let hasBegun = false
    return copyDatabase(await on(from), await on(to), {
      now: T0,
      seal: seal ? AUDIT : null,
      replace: false,
      kind: 'move',
      show: (_, doing) => {
        if (doing !== 'verifying' || hasBegun) return
        hasBegun = true
        verifying()
      },
    })
  }
  return { pair, full, empty, file, on, move }
}

suite('a move and a standby', () => {
  test('a source does not count as moved while one disk alone has that', async (t) => {
    const { pair, full, file, move } = await stage(t, 'moved')
    await assertNotToldAlone(t, pair, 'pg_cancel_backend', (verifying) => move(full, file, { verifying }))
  })

  test('the freeze of another copy, which could not wait for it, is waited for before the copy has a name', async (t) => {
    const { pair, full, file, move, on } = await stage(t, 'again')
    let goOn = () => {}
    t.after(() => goOn())
    const first = followed(move(full, file, { verifying: () => (goOn = pair.holdBack()) }))
    await pair.waits(first.isOver)
    await pair.endWait('pg_terminate_backend')
    await first.ended
    assert.match(first.told(), /it is not known whether that was recorded/)
    assert.equal((await (await on(full)).frozen())?.movedTo, file)
    for (const seal of [true, false]) {
      const { told, isOver, ended } = followed(move(full, file, { seal }))
      await pair.waits(isOver)
      assert.equal(told(), '')
      assert.ok(!existsSync(file))
      if (seal) await pair.endWait('pg_terminate_backend')
      else goOn()
      await ended
      assert.equal(told() === 'done', !seal, told())
      assert.equal(existsSync(file), !seal)
    }
  })

  test('a copy is not told as in its place while one disk alone has it there', async (t) => {
    const { pair, full, empty, file, move } = await stage(t, 'named')
    await move(full, file)
    await assertNotToldAlone(t, pair, 'pg_cancel_backend', (verifying) =>
      move(file, empty, { seal: false, verifying }),
    )
  })

  test('a database is not told as taken back on one disk alone', async (t) => {
    const { pair, full, file, move, on } = await stage(t, 'taken_back')
    await move(full, file)
    await assertNotToldAlone(t, pair, 'pg_cancel_backend', async (holdBack) => {
      holdBack()
      await (await on(full)).unseal({ now: T0, audit: noted })
    })
  })

  test('a commit of what has failed is not taken for done', async (t) => {
    const { primary } = await ourPair()
    const client = await openAlone(primary.url('postgres'))
    t.after(() => client.end())
    await client.query('begin')
    await client.query('select 1 / 0').catch(() => {})
    await assert.rejects(commitAlone(client), /a commit was answered with ROLLBACK/)
  })
})

// backup and restore of a database on a server: into a SQLite file, and back.

test('a copy that ends in the middle of a table leaves its server at once', async (t) => {
  const url = await ownDatabase(temporaryFolder(t))
  const client = await openAlone(url)
  // More than the buffers between a server and its reader hold.
  await client.query("insert into prices select n, 1, repeat('x', 100) from generate_series(1, 300000) n")
  await client.end()
  const source = await holdServer(url, null, { fromWriters: true })
  const prices = TABLES.find(({ name }) => name === 'prices') ?? assert.fail('no prices')
  for await (const { rows } of source.blocks(prices)) {
    assert.ok(rows > 0 && rows < 300_000)
    break
  }
  await source.release()
})

test('a backup of a server is a file that serves, and restores into a server', async (t) => {
  const { file, beside, onServer, on, refused, ask } = await ends(t)
  const [url, fresh] = [onServer('backed-up'), onServer('fresh')]
  await on(file, 'copy', '--to', url)
  const copy = beside('backup.db')
  const { bytes } = JSON.parse(await on(url, 'backup', copy, '--json'))
  assert.ok(bytes > 100_000)
  assert.equal(await on(copy, 'plan', 'list', '--json'), await on(url, 'plan', 'list', '--json'))
  assert.equal((await refused(url, 'backup', copy)).code, 'file_exists')
  await on(url, 'backup', copy, '--force')
  symlinkSync('/dev/null', beside('device'))
  for (const force of [[], ['--force']])
    assert.equal((await refused(url, 'backup', beside('device'), ...force)).code, 'bad_file')
  mkdirSync(beside('dated'))
  for (let times = 1; times <= 2; times++) {
    await on(url, 'backup', beside('dated'))
    assert.equal(readdirSync(beside('dated')).length, times, 'a second one in the same second, too')
  }

  await on(fresh, 'restore', copy)
  assert.equal(await on(fresh, 'plan', 'list', '--json'), await on(url, 'plan', 'list', '--json'))
  assert.match(await on(fresh, 'audit'), /database\.restore/)
  await on(fresh, 'check')

  // The existing database is replaced only with --force, and is not deleted.
  await on(url, 'partner', 'create', 'later', '--name', 'Later')
  const { exit, code, message } = await refused(url, 'restore', copy)
  assert.deepEqual([exit, code], [5, 'database_exists'])
  assert.match(message, /--force puts the copy in its place/)
  assert.match(await on(url, 'partner', 'list'), /later/)
  const { replaced } = JSON.parse(await on(url, 'restore', copy, '--force', '--json'))
  assert.doesNotMatch(await on(url, 'partner', 'list'), /later/)
  const kept = await ask(url, `select from ${replaced}.partners where partner_slug = 'later'`)
  assert.equal(kept.length, 1)
})

test('a backup of a database that has moved takes no place', async (t) => {
  const { file, beside, onServer, on, refused, frozenKind } = await ends(t)
  const url = onServer('used')
  await on(file, 'copy', '--to', url)
  await on(url, 'backup', beside('before.db'))
  await on(url, 'copy', '--to', beside('moved.db'), '--seal')
  await on(url, 'backup', beside('moved-backup.db'))
  for (const [db, ...argv] of [
    [beside('moved-backup.db'), 'tick', '--price', '60000'],
    [url, 'restore', beside('moved-backup.db'), '--force'],
    [url, 'tick', '--price', '60000'],
  ] as const)
    assert.equal((await refused(db, ...argv)).code, 'database_moved')
  await on(url, 'restore', beside('before.db'), '--force')
  assert.equal(await frozenKind(url), 'restored')
  await on(url, 'resume', '--yes')
  assert.equal(await frozenKind(url), null)
  writeFileSync(beside('none.db'), '')
  const missing = await refused(url, 'restore', beside('none.db'), '--force')
  assert.deepEqual([missing.exit, missing.message], [4, `There is no file ${beside('none.db')}.`])
})
