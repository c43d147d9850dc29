// What chance may change: tokens of code and of SQL, and neither words for users nor types.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { changesOf, isSql } from './changes.ts'
import { ROOT } from './rows.ts'

/** The texts that chance may make of one, in the order of their places. */
const made = (text: string, file = 'src/core/a.ts'): string[] =>
  changesOf(file, text)
    .toSorted((a, b) => a.start - b.start || a.end - b.end)
    .map((change) => text.slice(0, change.start) + change.text + text.slice(change.end))

const OF_STORE = 'src/store/sql/a.ts'

test('an operator, a number, a truth and a not are changed, one at a time', () => {
  assert.deepEqual(made('const a = b < 1'), ['const a = b <= 1', 'const a = b < 2'])
  assert.deepEqual(made('const a = !b && true'), [
    'const a = b && true',
    'const a = !b || true',
    'const a = !b && false',
  ])
  assert.deepEqual(made('const a = Math.max(b, 0n)'), [
    'const a = Math.min(b, 0n)',
    'const a = Math.max(b, 1n)',
  ])
})

test('what makes no difference is left alone: a fallback for the compiler, the order of two for the later one', () => {
  assert.deepEqual(made('const a = b[c] ?? 0'), [])
  assert.deepEqual(made('const a = later(b, c)'), [])
  assert.deepEqual(made("const SQL = 'select 1 from plans p limit 1'", OF_STORE), [])
})

test('arguments are swapped, and statements dropped that give nothing to others', () => {
  assert.deepEqual(made('const a = f(b, c.d)'), ['const a = f(c.d, b)'])
  assert.deepEqual(made('function f() { g(); return h() }'), ['function f() { ; return h() }'])
  assert.deepEqual(made('function f() { if (a) return; void g() }'), ['function f() { ; void g() }'])
})

test('types, imports, comments and words are left alone', () => {
  assert.deepEqual(made("import a from 'a'\ntype B = 1 | true // a < b\nconst c: 2 = d"), [])
  assert.deepEqual(made('throw fail(`${a + 1} and ${b} are or were <= 3`)'), [])
  assert.deepEqual(made("const words = 'A plan is not null, or it is.'", OF_STORE), [])
})

test('one more is not added to the size of a page', () => {
  assert.deepEqual(made('const PAGE_ROWS = 5_000'), [])
  assert.equal(made('const a = b * 5_000').length, 2)
})

test('SQL is changed by its own words, between the expressions in it', () => {
  assert.deepEqual(made('const a = `select max(b_at) from c where ${d} and e <= 1`', OF_STORE), [
    'const a = `select min(b_at) from c where ${d} and e <= 1`',
    'const a = `select max(b_at) from c where ${d} or e <= 1`',
    'const a = `select max(b_at) from c where ${d} and e < 1`',
    'const a = `select max(b_at) from c where ${d} and e <= 2`',
  ])
  assert.deepEqual(
    made("const a = 'select distinct b from c where d is not null order by e desc'", OF_STORE),
    [
      "const a = 'select b from c where d is not null order by e desc'",
      "const a = 'select distinct b from c where d is null order by e desc'",
      "const a = 'select distinct b from c where d is not null order by e'",
    ],
  )
})

test('what SQL would not be read with is not made: in assignments, in ranges, beside insert', () => {
  assert.deepEqual(made("const a = 'update b set c = d where e = :f'", OF_STORE), [
    "const a = 'update b set c = d where e <> :f'",
  ])
  assert.deepEqual(made("const a = 'insert or replace into b select c from d'", OF_STORE), [])
  assert.deepEqual(made("const a = 'select b from c where d between :from and :to'", OF_STORE), [])
})

test('SQL is told from sentences, settings and names', () => {
  for (const sql of ['tenant_id = :tenant', '? and p.plan_id > :after', 'd.at is not null'])
    assert.ok(isSql(sql), sql)
  for (const other of [
    'foreign_keys = on',
    'a plan_id, and none',
    'It is set. See user_id',
    'plan_id',
    'not found',
  ])
    assert.ok(!isSql(other), other)
})

test('a file of the program has many changes, of code and of SQL, each of them one', () => {
  const file = 'test/mutants/changes.ts'
  const text = readFileSync(join(ROOT, file), 'utf8')
  const changes = changesOf(file, text)
  assert.ok(changes.length > 50)
  for (const { start, end, text: by } of changes) assert.notEqual(text.slice(start, end), by)
})
