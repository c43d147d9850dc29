// What the house rules read of a file: where its functions end, and which of its lines are too long.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { functionsOf } from './support/functions.ts'
import { longComments, longProse } from './support/long-lines.ts'

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
