// The names that guides give to units and scripts, against the files that have them.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { blocksOf } from '../support/code-blocks.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
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
