// A copy between any two databases: the same rows, the same bytes there and back, and nothing in the place of anything.

import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import { type DigestedRow, rowDigest } from '../../src/store/digests.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { TABLES } from '../../src/store/tables.ts'
import { giveDigests } from '../support/database.ts'
import { ourServer } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
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
  giveDigests(db)
  const digest = db.prepare('update schedules set digest = ? where plan_id = ?')
  for (const row of db.prepare<[], DigestedRow>('select * from schedules').all())
    digest.run(rowDigest('schedules', row), row.plan_id)
  db.close()
}

suite('copy', { concurrency: 2 }, () => {
  test('there and back, over any road, is the same bytes', async (t) => {
    if (!hasTool(t, 'postgres')) return
    const { file, beside, onServer, on, refused } = await ends(t)
    makeNasty(file)
    const [one, two] = [onServer('one'), onServer('two')]
    const printed: Printed = JSON.parse(await on('none', 'copy', '--from', file, '--to', one, '--json'))
    assert.equal(printed.closed_months, 2)
    assert.equal(printed.sealed_at, null)
    assert.deepEqual(
      printed.tables.map(({ name }) => name),
      TABLES.map(({ name }) => name),
    )
    for (const name of ['users', 'plans', 'windows', 'executions', 'trades', 'audit', 'ticks'])
      assert.ok((printed.tables.find((table) => table.name === name)?.rows ?? 0) > 5, name)
    await on('none', 'copy', '--from', one, '--to', two)
    await on('none', 'copy', '--from', two, '--to', beside('far.db'))
    // One of the two may be that of --db.
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
    assert.deepEqual(
      readdirSync(beside('.')).filter((name) => /partial|-wal|-shm|-owner/.test(name)),
      [],
    )

    for (const taken of [one, beside('far.db')]) {
      const { exit, code } = await refused('none', 'copy', '--from', file, '--to', taken)
      assert.deepEqual([exit, code], [5, 'database_exists'])
    }
  })

  test('a copy on a server is a service: it is sound, polls, and numbers what is added behind what it has', async (t) => {
    if (!hasTool(t, 'postgres')) return
    const { file, onServer, on, open, shell } = await ends(t)
    const url = onServer('served')
    await on(file, 'copy', '--to', url)
    assert.equal(await on(url, 'partner', 'list', '--json'), await on(file, 'partner', 'list', '--json'))
    assert.equal(await on(url, 'plan', 'list', '--json'), await on(file, 'plan', 'list', '--json'))
    await on(url, 'partner', 'create', 'later', '--name', 'Later')
    shell.advance(3_600_000)
    const ticked = JSON.parse(await on(url, 'tick', '--price', '60000', '--json'))
    assert.ok(ticked.executions_created > 0)
    assert.equal((await (await open(url)).findFaults()).length, 0)
  })

  test('nothing is copied while a change of a partner has not reached all of its plans: a tick sees to that', async (t) => {
    if (!hasTool(t, 'postgres')) return
    const { file, onServer, on, refused, beside } = await ends(t)
    const url = onServer('behind')
    await on(file, 'copy', '--to', url)
    const server = await ourServer()
    const database = new URL(url).pathname.slice(1)
    await server.ask(
      'insert into tranche.schedules_behind (partner_slug) select min(partner_slug) from tranche.partners',
      database,
    )
    const early = await refused(url, 'copy', '--to', beside('early.db'))
    assert.deepEqual([early.exit, early.code], [11, 'database_in_use'])
    assert.match(early.message, /has not reached all of its plans yet: wait for it, or run a tick first\.$/)
    await on(url, 'tick', '--price', '60000')
    await on(url, 'copy', '--to', beside('then.db'))
  })

  test('nothing is copied that the check finds wrong, and nothing is left of it', async (t) => {
    if (!hasTool(t, 'postgres')) return
    const { file, beside, onServer, refused } = await ends(t)
    const db = openFile(file)
    db.exec('update windows set spent = spent + 1, budget = budget + 1 where window_id = 1')
    db.close()
    const url = onServer('faulty')
    for (const to of [url, beside('faulty.db')]) {
      const { exit, code, message } = await refused(file, 'copy', '--to', to)
      assert.deepEqual([exit, code], [1, 'bad_file'])
      assert.match(
        message,
        /The check finds \d+ faults? in .*window_spent.*: run `tranche --db \S+ check`\.$/,
      )
    }
    const server = await ourServer()
    const database = new URL(url).pathname.slice(1)
    const left = await server.ask("select nspname from pg_namespace where nspname ~ 'tranche'", database)
    assert.deepEqual(left, [])
    assert.deepEqual(
      readdirSync(beside('.')).filter((name) => name.includes('faulty')),
      [],
    )
  })

  test('a command line that names no two databases is a mistake, and a file that is in the way is kept', async (t) => {
    if (!hasTool(t, 'postgres')) return
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
    if (!hasTool(t, 'postgres')) return
    const { file, onServer, refused } = await ends(t)
    const db = openFile(file)
    db.exec("update users set email = 'a' || char(0) || 'b' where user_id = 1")
    db.close()
    const url = onServer('nul')
    const { code, message } = await refused(file, 'copy', '--to', url)
    assert.equal(code, 'bad_file')
    assert.match(message, /cannot keep a row of users/)
    assert.equal((await refused(url, 'status')).code, 'database_not_found')
  })
})
