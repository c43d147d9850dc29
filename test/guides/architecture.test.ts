// docs/architecture.md against the tree: the paths it names exist, and its table of rooms is the rule that is enforced.

import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { BELOW_CLI, ROOMS } from '../support/rooms.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGE = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8')
const PATH = /`((?:src|test|sql|docs|bin|deploy|fixtures)\/[^`\s]*)`/g

test('every path on the page exists', () => {
  const paths = [...PAGE.matchAll(PATH)].map(([, path = '']) => path)
  const links = [...PAGE.matchAll(/\]\(([^)#]+)/g)].map(([, link = '']) => join('docs', link))
  assert.ok(paths.length > 60, `the page names ${paths.length} paths`)
  assert.ok(links.length > 5, `the page has ${links.length} links`)
  assert.deepEqual(
    [...paths, ...links].filter((path) => !existsSync(join(ROOT, path))),
    [],
  )
})

test('the table has every room, and what it may import', () => {
  const section = /\n## The rooms\n([\s\S]*?)\n## /.exec(PAGE)?.[1] ?? ''
  const rows = [...section.matchAll(/^\| `src\/([^`]+?)(?:\/|\.ts)` \| [^|]+ \| ([^|]*)\|$/gm)]
  const table = Object.fromEntries(rows.map(([, room = '', may = '']) => [room, may.trim()]))
  const rule = Object.entries(ROOMS).map(([room, { may }]) => {
    const others = may.filter((other) => other !== room)
    const named = others.filter((other) => !BELOW_CLI.includes(other))
    return [
      room,
      (named.length + BELOW_CLI.length === others.length ? ['all above', ...named] : others).join(', '),
    ]
  })
  assert.deepEqual(table, Object.fromEntries(rule))
})
