// A database of the first schema, with years of use in it, is upgraded to the present one.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { readMigrations } from '../../src/resources.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { temporaryFolder } from '../support/database.ts'
import { finish, type Program, SOURCE } from '../support/process.ts'
import { beside, filled, mode, soundUsers, tamper, trancheHere } from './copies.ts'
import { FIRST, firstSchemaOf } from './first-schema.ts'
import { tranche } from './second-process.ts'
import { allExecutions, each, T0 } from './world.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const NAMES = readMigrations('sqlite').map(({ name }) => name)

async function firstSchema(t: TestContext): Promise<string> {
  const file = join(temporaryFolder(t), 'tranche.db')
  firstSchemaOf(await filled(t), file)
  return file
}

const backups = (file: string) => beside(file).filter((name) => name.includes('before-migration'))
const applied = (out: string) =>
  (JSON.parse(out) as { name: string; applied_at: string | null }[])
    .filter(({ applied_at }) => applied_at !== null)
    .map(({ name }) => name)

/** This program as if it knew other migrations, fewer or one more: it looks for them in another folder. */
function programWith(t: TestContext, sql: Record<string, string>): Program {
  const folder = temporaryFolder(t)
  for (const [name, text] of Object.entries(sql)) writeFileSync(join(folder, name), text)
  const elsewhere = `import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module';
    const [ours, theirs] = ${JSON.stringify([join(ROOT, 'sql/'), `${folder}/`])}
    for (const name of ['readdirSync', 'readFileSync']) {
      const read = fs[name]
      fs[name] = (path, ...more) => read(typeof path === 'string' ? path.replace(ours, theirs) : path, ...more)
    }
    syncBuiltinESMExports()`
  const [node, ...rest] = SOURCE
  return [node, '--import', `data:text/javascript,${encodeURIComponent(elsewhere)}`, ...rest]
}

const open = (file: string) => openStore(file, { clock: () => T0, create: false })
const known = () => Object.fromEntries(readMigrations('sqlite').map(({ name, text }) => [name, text]))

suite('upgrade', { concurrency: 3 }, () => {
  test('from the first schema to the last: nothing is lost, a copy is kept, and check is content', async (t) => {
    const file = await firstSchema(t)
    const seen = await trancheHere(file, 'migrate', '--status', '--json')
    assert.deepEqual([seen.code, applied(seen.out)], [0, [FIRST]])
    assert.match((await trancheHere(file, 'migrate', '--status')).out, /^0002\S+ pending$/m)
    assert.deepEqual(beside(file), ['tranche.db'], 'looking changes nothing')

    const done = await trancheHere(file, 'migrate', '--json')
    assert.deepEqual([done.code, done.err, applied(done.out)], [0, '', NAMES])
    const [backup = '', another] = backups(file)
    const name = `tranche.db.before-migration-after-${FIRST.slice(0, -4)}`
    assert.deepEqual([backup, another], [name, undefined])
    assert.equal(mode(join(dirname(file), backup)), 0o600)
    assert.deepEqual(await soundUsers(t, file), ['u1'])
    const { code, out } = await trancheHere(file, 'check', '--json')
    assert.deepEqual([code, JSON.parse(out).ok], [0, true])
    for (const command of [['tick', '--price', '60000'], ['status'], ['execution', 'list'], ['audit']])
      assert.equal((await trancheHere(file, ...command)).code, 0, command.join(' '))
    assert.equal(backups(file).length, 1, 'one migration, one backup')
    const fresh = join(temporaryFolder(t), 'tranche.db')
    await trancheHere(fresh, 'migrate')
    assert.deepEqual(schemaOf(file), schemaOf(fresh))
  })

  test('reports kept by the first release: fills wait for a decision unless it was made, failures are gone', async (t) => {
    const file = await firstSchema(t)
    const db = new SQLite(file)
    db.pragma('foreign_keys = off')
    const insert = db.prepare(
      `insert into late_reports (execution_id, tenant_id, fingerprint, partner_order_id, status, usd_amount, btc_amount,
         execution_price, failure_reason, received_at, accepted_at)
       select execution_id, tenant_id, ?, ?, ?, ?, ?, ?, ?, 1, ? from executions`,
    )
    insert.run('a', 'o1', 'filled', 1_000_000, 10, 6_000_000_000_000, null, 2)
    insert.run('b', 'o2', 'partial', 1_000_000, 10, 6_000_000_000_000, null, null)
    insert.run('c', 'o3', 'failed', null, null, null, 'no money', null)
    db.close()
    const { out } = await trancheHere(file, 'execution', 'late-fills', '--json')
    const rows = JSON.parse(out) as Record<string, unknown>[]
    assert.deepEqual(each(rows, 'partner_order_id', 'reason', 'decided_at'), [
      ['o1', 'execution_cancelled', '1970-01-01T00:00:00.002Z'],
      ['o2', 'execution_cancelled', null],
    ])
  })

  test('every command upgrades on its way, several at once only once', async (t) => {
    const file = await firstSchema(t)
    const ends = await Promise.all(
      [['tick', '--price', '60000'], ['status'], ['check']].map((command) => tranche(t, file, ...command)),
    )
    assert.deepEqual(each(ends, 'code'), [0, 0, 0], JSON.stringify(ends))
    assert.equal(backups(file).length, 1)
    assert.deepEqual(await soundUsers(t, file), ['u1'])
  })

  test('rolling back: the old program refuses the new schema with 12, and takes the copy', async (t) => {
    const file = await firstSchema(t)
    await trancheHere(file, 'migrate')
    // The present program is the old one: the new one has one migration more.
    const later = '9999_later.sql'
    const cwd = dirname(file)
    const program = programWith(t, { ...known(), [later]: 'create table later (one integer) strict;' })
    assert.equal((await finish(t, ['--db', file, 'migrate'], { cwd, program })).code, 0)
    for (const argv of [['tick'], ['migrate', '--status'], ['backup', join(cwd, 'x.db')]]) {
      const { code, out, err } = await trancheHere(file, ...argv)
      assert.deepEqual([code, out], [12, ''], argv.join(' '))
      assert.match(err, /does not know: upgrade tranche/)
    }
    const copy = backups(file).find((name) => name.includes(NAMES.at(-1)?.slice(0, -4) ?? ''))
    assert.equal(mode(join(cwd, copy ?? '')), 0o600)
    const back = await trancheHere(file, 'restore', join(cwd, copy ?? ''))
    assert.equal(back.code, 0, back.err)
    // It does not know every column of the replaced database, and says what it could not read there.
    assert.match(back.err, /^(warning: not read: .*\n)*$/)
    const states = await trancheHere(file, 'migrate', '--status', '--json')
    assert.deepEqual([states.code, applied(states.out)], [0, NAMES])
    assert.deepEqual(await soundUsers(t, file), ['u1'])
    // And forward once more.
    assert.equal((await finish(t, ['--db', file, 'migrate'], { cwd, program })).code, 0)
  })

  test('a migration that fails leaves the database to the program that wrote it', async (t) => {
    const file = await filled(t)
    const sql = 'create table more (x integer) strict; insert into nowhere values (1);'
    const program = programWith(t, { ...known(), '9999_next.sql': sql })
    const { code, err } = await finish(t, ['--db', file, 'status'], { cwd: dirname(file), program })
    assert.equal(code, 1)
    assert.match(err, /no such table: nowhere/)
    const store = await open(file)
    t.after(() => store.close())
    assert.equal((await allExecutions(store)).length, 1)
    assert.throws(() => tamper(file, 'select * from more'), /no such table/)
  })
})

/** The schema's SQL, with its white space normalized. */
function schemaOf(file: string): string[] {
  const db = new SQLite(file, { readonly: true })
  const sql = "select type || ' ' || name || ' ' || coalesce(sql, '') from sqlite_schema order by 1"
  const rows = db.prepare<[], string>(sql).pluck().all()
  db.close()
  return rows.map((text) => text.replace(/\s+/g, ' '))
}
