// The database of every release, opened by the current program: migrated with a backup copy, sound, and with the
// outputs of that time.

import assert from 'node:assert/strict'
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { DAY_MS } from '../../src/core/time.ts'
import { readMigrations, VERSION } from '../../src/resources.ts'
import { openShell, type Shell, succeed } from '../support/service.ts'
import { ask, lay, MIGRATIONS } from './release.ts'

const ROOT = join(import.meta.dirname, '../..')
const RELEASES = join(ROOT, 'fixtures/releases')
const VERSIONS = readdirSync(RELEASES).sort()

/** Asserts that everything in `then` is in `now`: fields may have been added, to objects and at the end of CSV rows. */
function assertKept(now: unknown, then: unknown, where: string): void {
  if (typeof then !== 'object' || then === null) {
    assert.deepEqual(now, then, where)
    return
  }
  if (Array.isArray(then)) assert.equal((now as unknown[]).length, then.length, where)
  for (const [name, value] of Object.entries(then))
    assertKept((now as Record<string, unknown>)?.[name], value, `${where}/${name}`)
}

/** A current row begins with the old row. */
function assertSameRows(now: string, then: string, where: string): void {
  const [rows, before] = [now, then].map((text) => text.split('\r\n')) as [string[], string[]]
  assert.equal(rows.length, before.length, where)
  for (const [i, row] of before.entries()) {
    const seen = rows[i] ?? ''
    assert.ok(seen === row || seen.startsWith(`${row},`), `${where} ${i + 1}: ${row} became ${seen}`)
  }
}

/** The backup copies of a migration. */
const copies = ({ folder }: Shell): string[] =>
  readdirSync(folder).filter((name) => name.includes('before-migration'))

type State = { applied_at: string | null }

async function laid(t: TestContext, version: string) {
  const shell = openShell(t)
  const { keys, said } = lay(join(RELEASES, version), shell)
  const states: State[] = JSON.parse(await succeed(shell, 'migrate', '--status', '--json'))
  return { shell, keys, said, pending: states.filter(({ applied_at }) => applied_at === null).length }
}

for (const version of VERSIONS) {
  test(`a database of ${version} is migrated, with a copy kept, is sound, and gives the answers it gave`, async (t) => {
    const { shell, keys, said, pending } = await laid(t, version)
    await succeed(shell, 'migrate')
    assert.equal(copies(shell).length, pending > 0 ? 1 : 0)
    const states: State[] = JSON.parse(await succeed(shell, 'migrate', '--status', '--json'))
    const applied = states.filter(({ applied_at }) => applied_at !== null)
    assert.equal(applied.length, readMigrations('sqlite').length)
    const { ok, findings } = JSON.parse(await succeed(shell, 'check', '--json'))
    assert.deepEqual([ok, findings.filter(({ level }: { level: string }) => level === 'error')], [true, []])
    const now = await ask(shell, keys)
    for (const [file, then] of Object.entries(said.exports)) {
      assert.ok(then.split('\r\n').length > 2, `${file} has rows`)
      assertSameRows(now.exports[file] ?? '', then, file)
    }
    assertKept(now.lists, said.lists, 'lists')
    assertKept(now.answers, said.answers, 'answers')
  })

  test(`a database of ${version} goes on: what is due is handed out, weeks later its months are what they were`, async (t) => {
    const { shell, keys, said } = await laid(t, version)
    for (let day = 0; day < 30; day++) {
      shell.advance(DAY_MS)
      await succeed(shell, 'tick', '--price', '61000')
    }
    assert.ok((await shell.ask(keys[0] ?? '', 'GET', 'executions/due')).body.length > 0)
    const { exports } = await ask(shell, keys)
    for (const [file, then] of Object.entries(said.exports)) assertSameRows(exports[file] ?? '', then, file)
    assert.equal(JSON.parse(await succeed(shell, 'check', '--json')).ok, true)
  })
}

// From 1.0.0 on the schema only grows (docs/compatibility.md). A file is migrated and inspected, because SQLite changes
// some rules of a table only by rebuilding it; a server never has to.

const GROWING = VERSIONS.filter((version) => existsSync(join(RELEASES, version, MIGRATIONS)))

/** Every column of every table with its type. */
function columnsOf(file: string): string[] {
  const db = new SQLite(file, { readonly: true })
  try {
    return db
      .prepare<[], string>(
        `select t.name || '.' || c.name || ' ' || c.type from pragma_table_list t, pragma_table_info(t.name) c
          where t.type = 'table' and t.name not like 'sqlite_%'`,
      )
      .pluck()
      .all()
  } finally {
    db.close()
  }
}

/** The statements of a migration that take something away, or give it another name or type. */
function shrinking(sql: string): string[] {
  const statements = sql.replaceAll(/--.*$/gm, '').split(';')
  const words = [
    /\bdrop\s+(?:table|column|schema|type|domain)\b/i,
    /\brename\b/i,
    /\balter\s+(?:column\s+)?\w+\s+(?:set\s+data\s+)?type\b/i,
  ]
  const shrinks = (statement: string) => words.some((word) => word.test(statement))
  return statements.map((statement) => statement.trim()).filter(shrinks)
}

for (const version of GROWING) {
  test(`since ${version}, no migration takes a table or a column away, renames it or changes its type`, async (t) => {
    const { shell } = await laid(t, version)
    const then = columnsOf(shell.file)
    await succeed(shell, 'migrate')
    const now = new Set(columnsOf(shell.file))
    assert.ok(then.length > 100 && then.includes('trades.usd_amount INTEGER'))
    const gone = then.filter((column) => !now.has(column))
    assert.deepEqual(gone, [])
    const released = readFileSync(join(RELEASES, version, MIGRATIONS), 'utf8').split('\n')
    for (const name of globSync('sql/postgres/*.sql', { cwd: ROOT })) {
      if (released.includes(name)) continue
      assert.deepEqual(shrinking(readFileSync(join(ROOT, name), 'utf8')), [], name)
    }
  })
}

test('this version is among them, so that the next one is held to it', () => {
  assert.ok(existsSync(join(RELEASES, VERSION, MIGRATIONS)))
  assert.ok(GROWING.includes('1.0.0'))
})
