// The house rules, checked over the tree: allowed imports, calls that only the machine may make, limits on lengths.

import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { anchors } from '../src/cli/reference/guides.ts'
import { planted, ROWS, sourcesOf } from './mutants/rows.ts'
import {
  circlesOf,
  functionsOf,
  type Import,
  importsOf,
  longComments,
  longProse,
  packageOf,
  ROOMS,
  reached,
} from './support/house.ts'
import { isQuick } from './support/kinds.ts'

const ROOT = join(import.meta.dirname, '..')
const FILE_LINES_MAX = 800
/** A file is one noun or one mechanism. A shorter one is a part of another, unless it has a reason to be alone. */
const FILE_LINES_MIN = 80
const IMPORTERS_OF_A_SHORT_FILE = 3
const FOLDER_FILES_MAX = 20
/** The lines of a function without its closures, and with them. */
const FUNCTION_LINES_MAX = 70
const WITH_CLOSURES_MAX = 100
/** For a store, whose transactions close over one connection and are read one by one. */
const WITH_TRANSACTIONS_MAX = 140

const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
const list = (...patterns: string[]): string[] => globSync(patterns, { cwd: ROOT }).sort()

const SOURCES = list('src/**/*.ts')
const CODE = [...SOURCES, ...list('bin/*.{ts,mjs}', 'test/**/*.ts')]
const TEXTS = [
  ...CODE,
  ...list(
    'sql/**/*.sql',
    'docs/**/*.md',
    'deploy/**/{*.*,Dockerfile}',
    'fixtures/**/*.{md,txt,json,csv}',
    '*.{md,json}',
    '.ci/*',
    'bin/tranche',
    '.npmrc',
    '.gitignore',
  ),
]

/** The packages that every start loads, `tranche version` and each cron tick included; the rest is imported on use. */
const EAGER_PACKAGES = ['commander', 'decimal.js']

/** Entry points of a process or a thread: nothing imports them. */
const STARTS = ['src/main.ts', 'src/store/sqlite/file/checkpoint-thread.ts']

/** Modules that start processes. test:fast leaves out the tests that reach them. */
const STARTERS = ['node:child_process', 'test/support/process.ts']

test('every file of src has a room, and imports only what that room may', () => {
  const wrong: string[] = []
  for (const file of SOURCES) {
    const room = roomOf(file)
    const rule = ROOMS[room]
    if (!rule) wrong.push(`${file} has no room`)
    else wrong.push(...importsOf(file).flatMap((seen) => complaint(file, rule, seen)))
  }
  assert.deepEqual(wrong, [])
})

test('each decision is a heading of a page, and a row of the table with a number of its own', () => {
  const pages = list('docs/decisions/*.md').filter((file) => !/(README|dependencies)\.md$/.test(file))
  const headings = pages.flatMap((file) =>
    anchors(read(file).replace(/^###.*$/gm, ''))
      .slice(1)
      .map(({ anchor, title }) => `[${title}](${file.replace('docs/decisions/', '')}#${anchor})`),
  )
  const rows = [...read('docs/decisions/README.md').matchAll(/^\| (\d+) \| (.+) \|$/gm)]
  assert.deepEqual(rows.map(([, , link]) => link).sort(), headings.sort())
  assert.equal(new Set(rows.map(([, number]) => number)).size, rows.length)
})

test('a reference to a decision leads to its heading, or from a released migration to its number', () => {
  const known = list('docs/decisions/*.md').flatMap((file) => [
    file,
    ...anchors(read(file)).map(({ anchor }) => `${file}#${anchor}`),
  ])
  const numbered = read('docs/decisions/README.md')
  const leads = (file: string, target: string): boolean => {
    const [, number] = /^docs\/decisions\/(\d{4})-/.exec(target) ?? []
    if (number && file.startsWith('sql/')) return numbered.includes(`\n| ${Number(number)} | `)
    return known.includes(target)
  }
  const targets = TEXTS.flatMap((file) =>
    [...read(file).matchAll(/docs\/decisions\/[\w-]+(?:\.md)?(?:#[\w-]+)?/g)].map(([target]) => ({
      file,
      target,
    })),
  )
  assert.ok(targets.length > 20, `${targets.length} references`)
  assert.deepEqual(
    targets.filter(({ file, target }) => !leads(file, target)),
    [],
  )
})

test('no text has both sides of a merge', () => {
  const halfMerged = TEXTS.filter((file) => /^(<{7}|>{7})( |$)/m.test(read(file)))
  assert.deepEqual(halfMerged, [])
})

test('no files of src import each other in a circle, types included', () => {
  assert.deepEqual(
    circlesOf(new Map(SOURCES.map((file) => [file, importsOf(file).map(({ target }) => target)]))),
    [],
  )
})

test('every file of src is reached from main.ts, or from the script of a thread', () => {
  const known = new Set(STARTS.flatMap((start) => [...reached(start, () => true)]))
  assert.deepEqual(
    SOURCES.filter((file) => !known.has(file)),
    [],
  )
})

test('a start loads no package but what reads the command line and money', () => {
  const eager = [...reached('src/main.ts', ({ typesOnly, lazy }) => !typesOnly && !lazy)]
  const packages = eager.filter(
    (name) => !name.startsWith('src/') && !isBuiltin(name) && !name.endsWith('.json'),
  )
  assert.deepEqual(packages.sort(), EAGER_PACKAGES)
  // Node's own that take longer to load than all files of a start together.
  assert.deepEqual(
    eager.filter((name) => ['node:http', 'node:https', 'node:tls', 'node:worker_threads'].includes(name)),
    [],
  )
  assert.deepEqual(
    eager.filter((name) => ['store/postgres', 'store/sqlite'].includes(roomOf(name))),
    [],
  )
})

test('a database that is a file needs nothing of one that is on a server', () => {
  const files = [...reached('src/store/sqlite/database.ts', ({ typesOnly }) => !typesOnly)]
  assert.ok(files.includes('better-sqlite3'))
  assert.deepEqual(
    files.filter((name) => name === 'pg' || roomOf(name) === 'store/postgres'),
    [],
  )
})

test('a test file that starts processes is named so, and is not among the quick ones', () => {
  const starts = (file: string) =>
    [...reached(file, ({ typesOnly, lazy }) => !typesOnly && !lazy)].some((name) => STARTERS.includes(name))
  const wrong = list('test/**/*.test.ts').filter((file) =>
    starts(file) ? isQuick(file) : file.endsWith('.process.test.ts'),
  )
  assert.deepEqual(wrong, [])
})

test('the model of the simulation shares nothing with the program, and uses no package', () => {
  const led = list('test/simulation/model/*.ts').flatMap((file) => [...reached(file, () => true)])
  assert.ok(led.length > 8)
  assert.deepEqual(
    led.filter((name) => !name.startsWith('test/simulation/')),
    [],
  )
})

test('the text of each planted bug is in the program exactly once', () => {
  const sources = sourcesOf(ROOT)
  for (const row of ROWS) assert.doesNotThrow(() => planted(row, sources))
})

test('a migration never changes once it is there: databases remember what they were migrated with', () => {
  const known = new Map(
    read('fixtures/migrations.txt')
      .trim()
      .split('\n')
      .map((line) => line.split('  ').reverse() as [string, string]),
  )
  const found = list('sql/**/*.sql').map((file) => [file, hash('sha256', read(file))] as const)
  assert.deepEqual(
    found.filter(([file, digest]) => known.get(file) !== digest),
    [],
    'a new migration needs a line in fixtures/migrations.txt',
  )
  assert.equal(known.size, found.length)
})

test('imports name packages that package.json brings', () => {
  const { dependencies, devDependencies } = JSON.parse(read('package.json'))
  const wrong = CODE.flatMap((file) =>
    importsOf(file)
      .map(({ target }) => target)
      .filter((target) => !isBuiltin(target) && !/\.(ts|json|mjs)$/.test(target))
      .map(packageOf)
      .filter((name) => !(name in dependencies) && (file.startsWith('src/') || !(name in devDependencies)))
      .map((name) => `${file} imports ${name}`),
  )
  assert.deepEqual(wrong, [])
})

test('every dependency has its reason on record', () => {
  const page = read('docs/decisions/dependencies.md')
  const manifest = JSON.parse(read('package.json'))
  const { dependencies, devDependencies, optionalDependencies } = manifest
  const generators = JSON.parse(read('fixtures/generators/package.json'))
  const all = { ...dependencies, ...devDependencies, ...optionalDependencies, ...generators.dependencies }
  const rows = [...page.matchAll(/^\| ([^|]+?) +\| ([^|]{10,}) *\|$/gm)]
  const explained = rows.flatMap(([, packages = '']) => packages.split(', ')).filter((name) => name in all)
  assert.deepEqual([...new Set(explained)].sort(), Object.keys(all).sort())
})

const BANNED: [what: string, pattern: RegExp, where: string[]][] = [
  ['the clock', /\bDate\.now\b|\bnew Date\(\)/u, CODE],
  ['a Buffer in the core', /\bBuffer\b/u, list('src/core/**/*.ts', 'src/engine/*.ts')],
  ['chance', /\bMath\.random\b|\bcrypto\.getRandomValues\b/u, CODE],
  ['a default export', /^export default\b/, CODE],
  ['any', /(?:[:<|&(,] ?|\bas )any\b/u, [...SOURCES, ...list('bin/*')]],
  [
    'a test that is skipped or alone',
    /\b(?:test|it|suite|describe)\.(?:skip|only|todo)\b|\bskip: true/,
    CODE,
  ],
  ['an unfinished thing', new RegExp(['TO DO', 'FIX ME', 'X XX'].join('|').replaceAll(' ', '')), TEXTS],
  ['a path of one machine', new RegExp(['/wo rk/', '/ro ot/'].join('|').replaceAll(' ', '')), TEXTS],
  ['where a package came from', /"resolved":/, list('package-lock.json', 'fixtures/**/package-lock.json')],
]

for (const [what, pattern, where] of BANNED) {
  test(`nowhere: ${what}`, () => {
    assert.deepEqual(
      where.filter((file) => file !== 'src/machine.ts').flatMap((file) => hits(file, pattern)),
      [],
    )
  })
}

test('every file of code opens with a sentence that says what it is for', () => {
  assert.deepEqual(
    CODE.filter((file) => !/^(\/\/ .*[^.:]\n)*\/\/ .*[.:]\n/.test(read(file))),
    [],
  )
})

const linesOf = (file: string): number => read(file).trimEnd().split('\n').length

test(`no file of code has more than ${FILE_LINES_MAX} lines`, () => {
  const long = CODE.map((file) => ({ file, lines: linesOf(file) }))
  assert.deepEqual(
    long.filter(({ lines }) => lines > FILE_LINES_MAX),
    [],
  )
})

test(`a file of src has ${FILE_LINES_MIN} lines, or several files import it, or it is loaded late on purpose`, () => {
  const imports = SOURCES.flatMap((file) => importsOf(file).map((seen) => ({ file, ...seen })))
  const isCommand = (file: string): boolean =>
    file.startsWith('src/cli/') && /^export function \w+Command\(/m.test(read(file))
  // A file outside of all folders is a room of its own, for several rooms that may not see each other.
  const isRoom = (file: string): boolean => dirname(file) === 'src'
  const isAlone = (file: string): boolean => {
    if (isCommand(file) || isRoom(file)) return false
    const own = imports.filter(({ target }) => target === file)
    return own.length < IMPORTERS_OF_A_SHORT_FILE && !own.some(({ lazy }) => lazy)
  }
  const short = SOURCES.filter((file) => linesOf(file) < FILE_LINES_MIN && !STARTS.includes(file))
  assert.deepEqual(short.filter(isAlone), [])
})

test(`a folder of src has at most ${FOLDER_FILES_MAX} files`, () => {
  const folders = Object.entries(Object.groupBy(SOURCES, (file) => dirname(file)))
  assert.deepEqual(
    folders.filter(([, files = []]) => files.length > FOLDER_FILES_MAX),
    [],
  )
})

test('no line of a comment or of a guide is longer than 120 characters', () => {
  const guides = list('docs/**/*.md', 'deploy/*.md', '{README,CHANGELOG}.md')
  assert.deepEqual(
    [
      ...CODE.map((file) => longComments(file, read(file))),
      ...guides.map((file) => longProse(file, read(file))),
    ].flat(),
    [],
  )
})

test('no function is too long, by its own lines or with the closures inside it', () => {
  const wholeMax = (file: string): number =>
    /^src\/store\/(sqlite|postgres)\//.test(file) ? WITH_TRANSACTIONS_MAX : WITH_CLOSURES_MAX
  const long = [...SOURCES, ...list('bin/*.ts')].flatMap((file) =>
    functionsOf(read(file))
      .filter(({ own, whole }) => own > FUNCTION_LINES_MAX || whole > wholeMax(file))
      .map(({ head, own, whole }) => `${file}: ${head} has ${own}, ${whole} with its closures`),
  )
  assert.deepEqual(long, [])
})

function roomOf(file: string): string {
  const path = file.replace(/^src\//, '').replace(/\.ts$/, '')
  const rooms = Object.keys(ROOMS).filter((room) => path === room || path.startsWith(`${room}/`))
  return rooms.sort((a, b) => b.length - a.length)[0] ?? ''
}

function complaint(file: string, rule: { may: string[]; packages?: string[] }, seen: Import): string[] {
  const { target, typesOnly } = seen
  if (target.endsWith('.json')) return []
  if (target.startsWith('src/')) {
    const room = roomOf(target)
    const allowed = rule.may.includes(room) || (typesOnly && rule.may.includes(`types of ${room}`))
    return allowed ? [] : [`${file} imports ${target}`]
  }
  const allowed = rule.packages === undefined || rule.packages.includes(target)
  return allowed ? [] : [`${file} imports ${target}`]
}

/** Lines that match. Comments count, except in a search for code (a pattern with the flag u). */
function hits(file: string, pattern: RegExp): string[] {
  return read(file)
    .split('\n')
    .map((line, at) => ({ line: pattern.unicode ? line.replace(COMMENT, '') : line, at }))
    .filter(({ line }) => pattern.test(line))
    .map(({ line, at }) => `${file}:${at + 1}: ${line.trim()}`)
}

const COMMENT = /^\s*(\/\/|\*|\/\*\*).*|\s\/\/ .*/
