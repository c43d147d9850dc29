// serve before its database is open: up, not ready, and every call deferred.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { temporaryFolder } from '../support/database.ts'
import { readExposition } from '../support/exposition.ts'
import { start, WITH_OPS } from '../support/process.ts'
import { me, runHere } from '../support/service.ts'

const SQL = join(import.meta.dirname, '../../sql')

suite('serve before its database is open', { concurrency: 4 }, () => {
  test('while another process holds the database: up, not ready, every call put off, and at once gone when told to stop', async (t) => {
    const cwd = temporaryFolder(t)
    const other = new SQLite(join(cwd, 'tranche.db'))
    t.after(() => other.close())
    other.exec('begin exclusive')
    const served = start(t, ['serve', '--port', '0', ...WITH_OPS], { cwd })
    const { url, ops_url } = JSON.parse(await served.line('"opening the database"'))
    await assertWaiting(url, ops_url)
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)
    assert.ok(served.err().includes('"msg":"stopped"'))
  })

  test('during a migration, which another process does: the same', async (t) => {
    const cwd = temporaryFolder(t)
    const file = join(cwd, 'tranche.db')
    const other = firstSchema(t, file)
    other.exec('begin immediate')
    const served = start(t, ['serve', '--port', '0', ...WITH_OPS], { cwd })
    const { url, ops_url } = JSON.parse(await served.line('"opening the database"'))
    await assertWaiting(url, ops_url)
    other.exec('rollback')
    await served.line('"msg":"listening"')
    assert.equal((await fetch(`${url}/readyz`)).status, 200)
    assert.equal((await me(url, 'none')).status, 401)
    const { out } = await runHere(['--db', file, 'migrate', '--status', '--json'])
    assert.ok(JSON.parse(out).every((row: { applied_at: string | null }) => row.applied_at !== null))
    assert.ok(existsSync(`${file}.before-migration-after-0001_start`))
  })
})

async function assertWaiting(url: string, opsUrl: string): Promise<void> {
  assert.equal((await fetch(`${url}/healthz`)).status, 200)
  const terse = await fetch(`${url}/readyz`)
  assert.deepEqual([terse.status, await terse.json()], [503, { ready: false }])
  const ready = await fetch(`${opsUrl}/readyz`)
  assert.equal(ready.status, 503)
  assert.deepEqual(await ready.json(), { ready: false, reasons: ['The database is not open yet.'] })
  const metrics = readExposition(await (await fetch(`${opsUrl}/metrics`)).text())
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
