// The pieces of demo that need no process of their own: its path, its names and their quoting.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nextCommands, programName } from '../../src/cli/demo/show.ts'
import { syntheticPath } from '../../src/cli/trial/simulated-partner.ts'

test('the synthetic path is a function of its seed', () => {
  assert.deepEqual(syntheticPath(1, 500), syntheticPath(1, 500))
  assert.deepEqual(syntheticPath(1, 500), syntheticPath(1, 900).slice(0, 500))
  assert.notDeepEqual(syntheticPath(1, 500), syntheticPath(2, 500))
  assert.ok(syntheticPath(3, 40_000).every((price) => price > 0n && price % 1_000_000n === 0n))
})

const NAMES = [
  [
    'a checkout, from its root',
    '/src/t',
    '/src/t/bin/tranche.mjs',
    false,
    'bin/tranche',
    '/src/t/bin/tranche',
  ],
  ['a checkout, from its bin', '/src/t/bin', 'tranche.mjs', false, './tranche', '/src/t/bin/tranche'],
  [
    'a checkout, from elsewhere',
    '/home',
    '/src/t/bin/tranche.mjs',
    false,
    '/src/t/bin/tranche',
    '/src/t/bin/tranche',
  ],
  ['the executable', '/src/t', '/src/t/dist/tranche', true, 'dist/tranche', '/src/t/dist/tranche'],
] as const

for (const [where, cwd, script, built, typed, absolute] of NAMES) {
  test(`the name to type again: ${where}`, () => {
    const started = { argv0: 'dist/tranche', execPath: '/src/t/dist/tranche', script, cwd, built }
    assert.deepEqual(programName(started), { typed, absolute })
  })
}

test('names that a shell or cron would take apart are quoted', () => {
  const name = { typed: 'my bin/tranche', absolute: "/it's/50%/tranche" }
  const commands = nextCommands(name, { db: 'other.db', cwd: '/home/a b' }).map(({ command }) => command)
  assert.equal(commands[0], "'my bin/tranche' --db other.db serve")
  const tick = "* * * * * '/it'\\''s/50\\%/tranche' --db '/home/a b/other.db' tick"
  assert.equal(commands.at(-1), `${tick} 2>&1 | logger -t tranche --socket-errors=on`)
})
