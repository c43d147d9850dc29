// Errors in a test that nobody catches, and the end of the process: each fails the run, and is told.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from './support/database.ts'

/** What a test does, and what is told of it. The names are of three kinds, so that each has a process of its own. */
const TESTS: Record<string, [code: string, told: string]> = {
  'a rejection.test.ts': ["await null; Promise.reject(new Error('lost here')); await pause(20)", 'lost here'],
  'a timer.wait.test.ts': [
    "await null; setTimeout(() => { throw new Error('lost later') }); await pause(20)",
    'lost later',
  ],
  'an exit.process.test.ts': ['await null; try { process.exit() } catch {}', 'a test ended the process'],
}

test('what nobody catches, of a rejection or a timer, and an exit fail the run and are told', (t) => {
  const folder = temporaryFolder(t)
  const imports = `import { test } from 'node:test'\nimport { setTimeout as pause } from 'node:timers/promises'\n`
  const files = Object.entries(TESTS).map(([name, [code]]) => {
    const file = join(folder, name)
    writeFileSync(file, `${imports}test('fine', async () => { ${code} })\n`)
    return file
  })
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined }
  const argv = [join(import.meta.dirname, 'run.ts'), '--test-reporter=spec', ...files]
  const { status, stdout } = spawnSync(process.execPath, argv, { env, encoding: 'utf8' })
  assert.equal(status, 1, stdout)
  for (const [, told] of Object.values(TESTS)) assert.ok(stdout.includes(told), stdout)
  assert.match(stdout, /^ℹ fail 3$/m)
})
