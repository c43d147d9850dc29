// docs/architecture.md against the tree: every path it names is there, and every room of src is named.

import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')
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
