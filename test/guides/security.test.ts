// docs/security.md against the tests: each of its lines names at least one existing test.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runHere } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGE = readFileSync(join(ROOT, 'docs/security.md'), 'utf8')
/** The store's contract is run by the test files of both stores. */
const SUITE = globSync(['test/**/*.test.ts', 'test/store/contract/*.ts'], { cwd: ROOT })
const HEAD = '| what holds | proved by |'

type Claim = { what: string; tests: string[] }

/** Each title with its file: a title without one is in the file above it. */
function withFiles(named: readonly string[]): string[] {
  let file = ''
  return named.map((one) => {
    const [own] = /^`[^`]+`: /.exec(one) ?? []
    file = own ?? file
    return own ? one : file + one
  })
}

/** The rows of the tables that make claims. */
const claims: Claim[] = PAGE.split(`${HEAD}\n|---|---|\n`)
  .slice(1)
  .flatMap((table) => (table.split('\n\n')[0] ?? '').trimEnd().split('\n'))
  .map((row) => {
    const [, what = '', tests = ''] = /^\| (.+?) \| (.*) \|$/.exec(row) ?? []
    return { what, tests: withFiles(tests.split('<br>')) }
  })

const escaped = (text: string): string =>
  text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll("'", "\\\\?'")

/**
 * The number of tests or suites in a text that run and have a title: called, or as members of a list. A title that ends
 * in an ellipsis stands for each that begins so.
 */
function countTests(text: string, title: string): number {
  const [, beginning] = /^(.+) …$/.exec(title) ?? []
  const end = beginning === undefined ? '\\1' : ' (?:(?!\\1).)+\\1'
  const quoted = `(['"\`])${escaped(beginning ?? title)}${end}`
  const called = `^ *(?:await t\\.)?(?:test|suite|describe)\\(\\s*${quoted},(?!\\s*\\{[^}]*\\b(?:skip|todo)\\b)`
  const listed = `^ +${quoted}:\\s+(?:async|race)\\s?\\(`
  return [called, listed]
    .map((pattern) => [...text.matchAll(new RegExp(pattern, 'gm'))].length)
    .reduce((sum, found) => sum + found)
}

test('every line names a test of the suite that exists', () => {
  assert.ok(claims.length > 60, `${claims.length} lines`)
  const wrong = claims.flatMap(({ what, tests }) =>
    tests.flatMap((named) => {
      const [, name = '', title = ''] = /^`([\w./-]+)`: (\S.*)$/.exec(named) ?? []
      const file = SUITE.find((one) => one === `test/${name}.test.ts` || one === `test/${name}.ts`)
      if (file === undefined) return [`${what}: no test file in "${named}"`]
      const found = countTests(readFileSync(join(ROOT, file), 'utf8'), title)
      const wanted = title.endsWith(' …') ? found === 1 : found > 0
      return wanted ? [] : [`${what}: ${file} has ${found} tests "${title}"`]
    }),
  )
  assert.deepEqual(wrong, [])
})

test('the ten risks are there in their order, each with its claims', () => {
  const risks = [...PAGE.matchAll(/^### API(\d+):2023 .+$/gm)].map(([, number]) => Number(number))
  assert.deepEqual(risks, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  const section = PAGE.slice(PAGE.indexOf('## OWASP'), PAGE.indexOf('## Keys and secrets'))
  for (const part of section.split(/^### API/m).slice(1)) assert.ok(part.includes(HEAD), part.slice(0, 40))
})

test('what serve does unless it is told otherwise', async () => {
  const { out } = await runHere(['serve', '--help'])
  const options = out.replace(/\n {20,}/g, ' ')
  assert.match(options, /--host <\w+> .*default: "127\.0\.0\.1"/)
  assert.match(options, /--tick-every <\w+> .*default: "off"/)
  assert.match(options, /--price-feed <\w+> .*default: "none"/)
  const range = options.split('\n').find((line) => line.includes('--webhook-allow-cidr'))
  assert.ok(range)
  assert.match(range, /default: none/)
})
