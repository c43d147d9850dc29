// Planted bugs do not rot: every patch still applies, says what it breaks, and breaks only the program.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { FINDERS, isTold, judge } from './finders.ts'
import { apply, mutantsOf, ROOT, storeOf } from './patches.ts'

for (const [finder, { args, bugs }] of Object.entries(FINDERS)) {
  const mutants = mutantsOf(finder)

  test(`every planted bug for ${finder} applies to the tree as it is`, () => {
    assert.ok(mutants.length >= bugs)
    assert.deepEqual(
      mutants.flatMap((mutant) => apply(mutant, ROOT, '--check') ?? []),
      [],
    )
  })

  test(`every planted bug for ${finder} has a number of its own, and says what it breaks and what that costs`, () => {
    assert.deepEqual(
      mutants.map(({ name }) => name.slice(0, name.indexOf('-'))).toSorted((a, b) => Number(a) - Number(b)),
      mutants.map((_, at) => String(at + 1).padStart(2, '0')),
    )
    assert.deepEqual(
      mutants.filter(({ words }) => words.length < 60 || !words.endsWith('.')).map(({ name }) => name),
      [],
    )
  })

  test(`what looks for ${finder} bugs is there`, () => {
    // Node runs the other files when one that it is given has been renamed.
    const files = [...args('sqlite', 1), ...args('postgres', 1)].filter((arg) => arg.endsWith('.ts'))
    assert.deepEqual(
      files.filter((file) => !existsSync(join(ROOT, file))),
      [],
    )
  })

  test(`every planted bug for ${finder} lies in the program, not in what looks for it`, () => {
    assert.deepEqual(
      mutants.filter(({ touched }) => !touched.every((file) => /^(?:src|sql)\//.test(file))),
      [],
    )
  })
}

test('a bug is looked for where it lies', () => {
  const both = ['src/store/postgres/a.ts', 'src/store/common/b.ts']
  assert.equal(storeOf({ touched: both.slice(0, 1) }), 'postgres')
  assert.equal(storeOf({ touched: both }), 'sqlite')
  assert.equal(storeOf({ touched: ['src/store/sqlite/c.ts'] }), 'sqlite')
})

test('a bug counts as found only when the finder names something and the program ran', () => {
  const { contract } = FINDERS
  assert.ok(contract)
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
