// The names in the guides against the files that have them: units, scripts, paths, and every room of src.

import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { blocksOf } from '../support/samples.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
/** Of a guide that is read in the order of the work, its blocks of code included. */
const WORDS_MAX = 2_500
const GUIDES = globSync(['README.md', 'docs/*.md', 'deploy/README.md'], { cwd: ROOT }).sort()

test('a unit that a guide gives to systemctl is one that comes with the program', () => {
  const ours = globSync('deploy/*.{service,timer}', { cwd: ROOT }).map((file) => basename(file))
  const given = GUIDES.flatMap((guide) =>
    [
      ...read(guide).matchAll(
        /systemctl (?:start|stop|restart|reload|status|edit|enable|disable)([^`';|&\n]*)/g,
      ),
    ]
      .flatMap(([, words = '']) => words.split(' '))
      .filter((unit) => unit.startsWith('tranche'))
      .map((unit) => ({ guide, unit: unit.includes('.') ? unit : `${unit}.service` })),
  )
  assert.ok(given.length > 5, `${given.length} units`)
  assert.deepEqual(
    given.filter(({ unit }) => !ours.includes(unit)),
    [],
  )
})

test('what operations does as root, it does not do with tranche itself', () => {
  const blocks = ['sh', 'text'].flatMap((language) => blocksOf(read('docs/operations.md'), language))
  const lines = blocks.flatMap((block) => block.split('\n'))
  assert.ok(lines.some((line) => line.startsWith('runuser -u tranche -- tranche ')))
  assert.deepEqual(
    lines.filter((line) => line.startsWith('tranche ')),
    [],
  )
})

test('a guide of the work is read in a quarter of an hour: what is looked up is in the reference', () => {
  for (const guide of ['docs/operations.md', 'docs/postgres.md']) {
    const words = read(guide).trim().split(/\s+/).length
    assert.ok(words <= WORDS_MAX, `${guide} has ${words} words, and may have ${WORDS_MAX}`)
  }
})

test('every script of npm is in a guide, and every one in a guide exists', () => {
  const scripts = Object.keys(JSON.parse(read('package.json')).scripts)
  const text = GUIDES.map(read).join('\n')
  const run = [...text.matchAll(/\bnpm run ([\w:]+)/g)].map(([, name = '']) => name)
  assert.deepEqual(
    run.filter((name) => !scripts.includes(name)),
    [],
  )
  const named = (name: string) =>
    ['npm ', 'npm run ', '`'].some((before) => text.includes(`${before}${name}`))
  assert.deepEqual(
    scripts.filter((name) => !named(name)),
    [],
  )
})

// docs/architecture.md against the tree: every path it names is there, and every room of src is named.

const PAGE = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8')
const PATH = /`((?:src|test|sql|docs|bin|deploy|fixtures)\/[^`\s]*)`/g
const BYTES_MAX = 10 * 1024

test('every path on the page exists', () => {
  const paths = [...PAGE.matchAll(PATH)].map(([, path = '']) => path)
  const links = [...PAGE.matchAll(/\]\(([^)#]+)/g)].map(([, link = '']) => join('docs', link))
  assert.ok(paths.length > 50, `the page names ${paths.length} paths`)
  assert.ok(links.length > 2, `the page has ${links.length} links`)
  assert.deepEqual(
    [...paths, ...links].filter((path) => !existsSync(join(ROOT, path))),
    [],
  )
})

test('every folder of src is in the tree, and every file of core by its name', () => {
  const folders = globSync('src/*/', { cwd: ROOT }).map((folder) => `\`${folder.replace(/\/?$/, '/')}\``)
  assert.deepEqual(
    folders.filter((folder) => !PAGE.includes(folder)),
    [],
  )
  const nouns = globSync('src/core/*.ts', { cwd: ROOT }).map((file) => /([^/]+)\.ts$/.exec(file)?.[1] ?? file)
  assert.deepEqual(
    nouns.filter((noun) => !PAGE.includes(`\`${noun}\``) && !PAGE.includes(`\`src/core/${noun}.ts\``)),
    [],
  )
})

test('the page is read in ten minutes', () => {
  assert.ok(Buffer.byteLength(PAGE) <= BYTES_MAX, `${Buffer.byteLength(PAGE)} bytes`)
})
