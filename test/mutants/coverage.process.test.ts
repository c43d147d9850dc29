// Which tests run a place: by what V8 counted in one run of each, and for a constant by where it is used.

import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { scratch } from '../support/samples.ts'
import { measureTests } from './coverage.ts'

const PROGRAM = {
  'src/a.ts': `import { LIMIT } from './b.ts'
export type Sign = 'small' | 'large'
export function sizeOf(n: number): Sign {
  if (n < LIMIT) return 'small'
  return 'large'
}
export const double = (n: number): number => n * 2
`,
  'src/b.ts': 'const BASE = 5\nexport const LIMIT = BASE + 5\nexport const UNUSED = 3\n',
}

const testOf = (body: string): string =>
  `import { test } from 'node:test'\nimport { double, sizeOf } from '../src/a.ts'\ntest('one', () => void ${body})\n`

const ELSEWHERE = `import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
const words = "import('./src/a.ts').then(({ double }) => double(2))"
test('in another process', () => void execFileSync(process.execPath, ['-e', words], { env: process.env }))
test('without a bug too', () => { throw new Error('always') })
`

const TESTS = {
  'test/elsewhere.test.ts': ELSEWHERE,
  'test/small.test.ts': testOf('sizeOf(1)'),
  'test/large.test.ts': testOf('sizeOf(11)'),
  'test/double.test.ts': testOf('double(2)'),
}

const sources = new Map([
  ['src/a.ts', { text: PROGRAM['src/a.ts'], importers: [] }],
  ['src/b.ts', { text: PROGRAM['src/b.ts'], importers: ['src/a.ts'] }],
])

test('a place is run by the tests that come there, a constant by those that use it', async () => {
  const tree = join(mkdtempSync(join(scratch(), 'coverage-')), 'tree')
  for (const [file, text] of Object.entries({ ...PROGRAM, ...TESTS })) {
    mkdirSync(dirname(join(tree, file)), { recursive: true })
    writeFileSync(join(tree, file), text)
  }
  mkdirSync(join(tree, '../tmp'))
  const list = join(tree, 'tests.json')
  const options = { list, made: 'one', limitMs: 60_000 }
  const { runners, msOf, fails } = await measureTests(tree, Object.keys(TESTS), sources, options)
  const runnersOf = (file: keyof typeof PROGRAM, word: string): string[] =>
    runners(file, PROGRAM[file].indexOf(word)).toSorted()

  assert.deepEqual(runnersOf('src/a.ts', "'small'\n"), ['test/small.test.ts'])
  assert.deepEqual(runnersOf('src/a.ts', "'large'\n}"), ['test/large.test.ts'])
  assert.deepEqual(runnersOf('src/a.ts', '* 2'), ['test/double.test.ts', 'test/elsewhere.test.ts'])
  assert.deepEqual(runnersOf('src/b.ts', '5\n'), ['test/large.test.ts', 'test/small.test.ts'])
  assert.equal(runnersOf('src/b.ts', '3').length, 4)
  assert.deepEqual(fails, ['test/elsewhere.test.ts: without a bug too'])
  assert.ok(msOf(Object.keys(TESTS)) > msOf(['test/small.test.ts']))

  const kept = readFileSync(list, 'utf8')
  await measureTests(tree, Object.keys(TESTS), sources, options)
  assert.equal(readFileSync(list, 'utf8'), kept)
})
