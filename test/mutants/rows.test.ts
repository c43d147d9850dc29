// Planted bugs do not rot: the text of each is in the program once, and what takes its place can be read as code.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { FINDERS, isTold, judge } from './finders.ts'
import { editsOf, planted, ROOT, ROWS, type Row, rowsFor, type Sources, sourcesOf } from './rows.ts'

test('every planted bug is in the program once, changes it, and leaves code that can be read', () => {
  const sources = sourcesOf(ROOT)
  assert.deepEqual(
    ROWS.flatMap((row) => {
      const flaw = flawOf(row, sources)
      return flaw === null ? [] : [`${row.name}: ${flaw}`]
    }),
    [],
  )
})

test('every planted bug has a name of its own, says what it breaks and what that costs, and has a finder', () => {
  const names = ROWS.map(({ name }) => name)
  assert.deepEqual(
    names.filter((name, at) => names.indexOf(name) !== at || !/^[a-z-]+$/.test(name)),
    [],
  )
  const short = ROWS.filter(
    ({ breaks, by }) => breaks.length < 60 || !breaks.endsWith('.') || by.length === 0,
  )
  assert.deepEqual(short, [])
})

test('every finder has many bugs to find, and the tests that it runs are there', () => {
  // Node runs the other files when one that it is given has been renamed.
  const files = Object.values(FINDERS).flatMap(({ args }) => [...args('sqlite', 1), ...args('postgres', 1)])
  assert.deepEqual(
    files.filter((file) => file.endsWith('.ts') && !existsSync(join(ROOT, file))),
    [],
  )
  const counts = { contract: 128, copy: 17, simulate: 48 }
  for (const name of ['contract', 'copy', 'simulate'] as const)
    assert.ok(rowsFor(name).length >= counts[name])
})

const ROW = { name: 'a', by: [], breaks: '' } as const
const after = (row: Row, text: string, file = 'src/a.ts'): string | undefined =>
  planted(row, new Map([[file, text]])).get(file)

test('a bug is planted however its text is laid out, and what takes its place is laid out like it', () => {
  const row: Row = { ...ROW, find: 'put(one, two)', replace: ['put(one)', 'if (one)', '  put(two)'] }
  assert.equal(after(row, '  put( one,\n    two )\n'), '  put(one)\n  if (one)\n    put(two)\n')
  assert.equal(after({ ...ROW, find: ['a b'], replace: 'c' }, 'aa b; a\n b; a bb'), 'aa b; c; a bb')
})

test('nothing in place of a whole line leaves no line', () => {
  const row: Row = { ...ROW, find: 'two()', replace: '' }
  assert.equal(after(row, 'one()\n  two()\nthree()\n'), 'one()\nthree()\n')
  assert.equal(after(row, 'one(), two()\n'), 'one(), \n')
})

test('a bug of several places is planted in all of them', () => {
  const edits = [
    { find: 'one', replace: 'first' },
    { find: 'two', replace: 'second' },
  ]
  assert.equal(after({ ...ROW, edits }, 'one, two, three'), 'first, second, three')
})

test('a text that is missing, or there more than once, is not guessed at', () => {
  const row: Row = { ...ROW, find: 'one', replace: 'two' }
  assert.throws(() => after(row, 'none'), /0 times/)
  assert.throws(() => after(row, 'one one'), /2 times: src\/a\.ts, src\/a\.ts/)
})

test('of twins the one is meant that the row names, until they become one text', () => {
  const row: Row = { ...ROW, find: 'one', replace: 'two', in: 'postgres' }
  const [file, server] = ['src/store/sqlite/a.ts', 'src/store/postgres/a.ts']
  const twins = new Map([file, server].map((name) => [name, 'one']))
  assert.deepEqual([...planted(row, twins).keys()], [server])
  assert.equal(after(row, 'one', 'src/store/a.ts'), 'two')
  assert.throws(() => planted({ ...row, in: 'common' }, twins), /0 times/)
})

test('a bug counts as found only when the finder names something and the program ran', () => {
  const { contract } = FINDERS
  const kindOf = (code: number | null, output: string, types: string | null = null) =>
    judge(contract, { code, output, timedOut: code === null }, types).kind
  const finding = '    not ok 3 - a lease lasts five minutes\n'
  assert.equal(kindOf(1, finding), 'found')
  assert.ok(!isTold(contract, finding))
  assert.ok(isTold(contract, `${finding}      ---\n      error: 'no'\n      ...\n`))
  assert.ok(!isTold(contract, `ok 1 - a\n  ---\n  ...\n${finding}`))
  assert.equal(kindOf(0, 'ok'), 'survived')
  assert.equal(kindOf(null, finding), 'survived')
  assert.equal(kindOf(1, finding, 'src/x.ts(1,1): error TS2304'), 'broken')
  assert.equal(kindOf(1, 'not ok 1 - test/store/sqlite.test.ts'), 'broken')
  assert.equal(kindOf(1, `${finding}error: 'near "form": syntax error'`), 'broken')
})

/** What keeps a row from being a bug of the program as it is. */
function flawOf(row: Row, sources: Sources): string | null {
  try {
    const changed = planted(row, sources)
    for (const [file, text] of changed) {
      if (text === sources.get(file)) return `changes nothing in ${file}`
      if (file.endsWith('.ts')) stripTypeScriptTypes(text)
      // What a server makes of its schema, the bug's finder sees.
      else if (!file.startsWith('sql/postgres/')) migrate(new Map([...sources, ...changed]), file)
    }
    return editsOf(row).length > 0 ? null : 'changes nothing'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** Makes a database by the files up to `last`: later ones need functions of the program. */
function migrate(sources: Sources, last: string): void {
  const db = new Database(':memory:')
  for (const [file, sql] of sources) if (/^sql\/[^/]+$/.test(file) && file <= last) db.exec(sql)
  db.close()
}
