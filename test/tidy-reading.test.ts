// What the house rules read of a file: where its functions end, which of its lines are
// too long, and which steps of a transaction it forgets.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { forgottenSteps, functionsOf, longComments, longProse } from './support/house.ts'

test('the lines of a function are counted', () => {
  const inner = ['  const inner = async (x: number) => {', ...Array(9).fill('    x += 1'), '  }']
  const outer = [
    'export function outer(',
    '  y: number,',
    '): void {',
    ...inner,
    '  if (y) {',
    '    y()',
    '  }',
    '}',
  ]
  assert.deepEqual(
    functionsOf(outer.join('\n'))
      .map(({ own }) => own)
      .sort(),
    [11, 5].sort(),
  )
})

test('lines that are too long are found, unless they cannot be broken', () => {
  const long = 'a word '.repeat(18)
  assert.deepEqual(longComments('x', [`  // ${long}`, `  * ${long}`, `const x = '${long}'`].join('\n')), [
    'x:1',
    'x:2',
  ])
  const kept = [
    '```',
    long,
    '```',
    `| ${long} |`,
    `# ${long}`,
    `- ${'x'.repeat(130)}`,
    '<!-- figures -->',
    long,
  ]
  assert.deepEqual(longProse('x', [...kept, '<!-- end -->', long, `- ${long}`].join('\n')), ['x:10', 'x:11'])
})

const HELPERS = `
  export function* close(tx: Tx): Steps<void> {
    yield* tx.together(tx.run(A), add(tx))
  }
  export const add = (tx: Tx): Step<number> => tx.run(B)
  const kept = (row: Row): Kept => row`

test('a step that is reached, or handed on, is not called forgotten', () => {
  const text = `
    const work = write(function* (tx) {
      const [rows] = yield* tx.together(tx.all(A), found ? tx.run(B) : close(tx), ...ids.map((id) => add(tx, id)))
      if (rows.length === 0) yield* add(tx)
      kept(rows[0])
      return look((tx) => tx.all(A))
    })`
  const sources = [HELPERS, text].map((text, at) => ({ file: `${at}`, text }))
  assert.deepEqual(forgottenSteps(sources), [])
})

test('a step that is thrown away is found, however its statement is worded', () => {
  const statements = [
    'tx.run(A)',
    'add(tx)',
    'close(tx)',
    'if (found) close(tx)',
    'found && add(tx)',
    'found ? (yield* add(tx)) : close(tx)',
    'void close(tx)',
    'ids.forEach((id) => close(tx, id))',
  ]
  const unseen = statements.filter((statement) => {
    const text = `${HELPERS}\nconst work = write(function* (tx) {\n${statement}\n})`
    return forgottenSteps([{ file: 'x', text }]).length !== 1
  })
  assert.deepEqual(unseen, [])
})
