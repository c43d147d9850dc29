// serve as its operators see it: up before its database is open, ready after, and gone when it is told to.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { readExposition } from '../exposition.ts'
import { PLAN, temporaryFolder, USER } from '../harness.ts'
import { finish, start, startServe } from '../process.ts'
import { halfSent, me, withKey } from './calls.ts'

const SQL = join(import.meta.dirname, '../../sql')

suite('serve and its operators', { concurrency: 4 }, () => {
  test('while another process holds the database: up, not ready, every call put off', async (t) => {
    const cwd = temporaryFolder(t)
    const other = new SQLite(join(cwd, 'tranche.db'))
    t.after(() => other.close())
    other.exec('begin exclusive')
    const served = start(t, ['serve', '--port', '0'], { cwd })
    const { url } = JSON.parse(await served.line('"opening the database"'))
    await assertWaiting(url)
    other.exec('rollback')
    await served.line('"msg":"listening"')
    assert.equal((await fetch(`${url}/readyz`)).status, 200)
    assert.equal((await me(url, 'none')).status, 401)
  })

  test('during a migration, which another process does: the same', async (t) => {
    const cwd = temporaryFolder(t)
    const file = join(cwd, 'tranche.db')
    const other = firstSchema(t, file)
    other.exec('begin immediate')
    const served = start(t, ['serve', '--port', '0'], { cwd })
    const { url } = JSON.parse(await served.line('"opening the database"'))
    await assertWaiting(url)
    other.exec('rollback')
    await served.line('"msg":"listening"')
    assert.equal((await fetch(`${url}/readyz`)).status, 200)
    const { out } = await finish(t, ['migrate', '--status', '--json'], { cwd })
    assert.ok(JSON.parse(out).every((row: { applied_at: string | null }) => row.applied_at !== null))
    assert.ok(existsSync(`${file}.before-migration-after-0001_start`))
  })

  test('told to stop while it waits for the database, it goes at once, with 0', async (t) => {
    const cwd = temporaryFolder(t)
    const other = new SQLite(join(cwd, 'tranche.db'))
    t.after(() => other.close())
    other.exec('begin exclusive')
    const served = start(t, ['serve', '--port', '0'], { cwd })
    await served.line('"opening the database"')
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
    assert.ok(served.err().includes('"msg":"stopped"'))
  })

  test('a database that cannot be opened ends serve with the reason', async (t) => {
    const cwd = temporaryFolder(t)
    const other = new SQLite(join(cwd, 'tranche.db'))
    other.exec('create table theirs (x)')
    other.close()
    const { code, err } = await finish(t, ['serve', '--port', '0'], { cwd })
    assert.equal(code, 2)
    assert.match(err, /no tranche database/)
  })

  test('a call that stalls for longer than the drain limit does not keep serve alive', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, ['--drain-limit', '1s'], { cwd })
    await halfSent(served.url, key)
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
    assert.match(served.err(), /"waited_ms":1000,"msg":"stopped with calls still in flight"/)
    assert.ok(served.err().includes('"msg":"stopped"'))
  })

  test('what cron does shows in the metrics of serve', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, [], { cwd })
    await send(served.url, key, 'users', USER)
    await send(served.url, key, 'plans', PLAN)
    const metrics = async () => readExposition(await (await fetch(`${served.url}/metrics`)).text())
    const created = 'tranche_executions_created_total{environment="test"}'
    assert.equal((await metrics()).value(created), 0)
    assert.equal((await metrics()).value('tranche_last_tick_age_seconds'), Number.POSITIVE_INFINITY)
    assert.equal((await finish(t, ['tick', '--price', '60000'], { cwd })).code, 0)
    const after = await metrics()
    assert.equal(after.value(created), 1)
    assert.equal(after.value('tranche_ticks_total{result="finished"}'), 1)
    assert.ok(after.value('tranche_last_tick_age_seconds') < 3600)
    // Another serve begins at 0: what was there before it is no increase.
    const later = await startServe(t, [], { cwd })
    const fresh = readExposition(await (await fetch(`${later.url}/metrics`)).text())
    assert.equal(fresh.value(created), 0)
    assert.equal(fresh.value('tranche_executions_due'), 1)
  })

  test('--ops-token-file: a file without a token stops it, one with a token is what opens', async (t) => {
    const cwd = temporaryFolder(t)
    writeFileSync(join(cwd, 'short'), 'secret\n')
    const refused = await finish(t, ['serve', '--port', '0', '--ops-token-file', 'short'], { cwd })
    assert.equal(refused.code, 2)
    assert.ok(!refused.err.includes('secret'), refused.err)
    assert.ok(!existsSync(join(cwd, 'tranche.db')))
    const token = 'opensesame-opensesame'
    writeFileSync(join(cwd, 'token'), `${token}\n`)
    const served = await startServe(t, ['--ops-token-file', 'token'], { cwd })
    assert.equal((await fetch(`${served.url}/healthz`)).status, 401)
    const headers = { authorization: `Bearer ${token}` }
    assert.equal((await fetch(`${served.url}/healthz`, { headers })).status, 200)
    assert.ok(!served.err().includes(token))
  })
})

async function assertWaiting(url: string): Promise<void> {
  assert.equal((await fetch(`${url}/healthz`)).status, 200)
  const ready = await fetch(`${url}/readyz`)
  assert.equal(ready.status, 503)
  assert.deepEqual(await ready.json(), { ready: false, reasons: ['The database is not open yet.'] })
  const metrics = readExposition(await (await fetch(`${url}/metrics`)).text())
  assert.equal(metrics.value('tranche_database_up'), 0)
  const call = await me(url, 'none')
  assert.equal(call.status, 503)
  assert.match(call.headers.get('retry-after') ?? '', /^\d+$/)
  const body = (await call.json()) as { detail: unknown }
  assert.equal(typeof body.detail, 'string')
}

/** A database as the first version of the program left it. */
function firstSchema(t: TestContext, file: string): SQLite.Database {
  const name = '0001_start.sql'
  const text = readFileSync(join(SQL, name), 'utf8')
  const db = new SQLite(file)
  t.after(() => db.close())
  db.pragma('journal_mode = wal')
  db.exec(
    'create table migrations (name text primary key, sha256 text not null, applied_at integer not null) strict',
  )
  db.prepare('insert into migrations values (?, ?, 1)').run(
    name,
    createHash('sha256').update(text).digest('hex'),
  )
  db.exec(text)
  return db
}

async function send(url: string, key: string, path: string, body: object): Promise<void> {
  const headers = { authorization: `Bearer ${key}` }
  const call = { method: 'POST', headers, body: JSON.stringify(body) }
  assert.equal((await fetch(`${url}/partner/v1/${path}`, call)).status, 200)
}
