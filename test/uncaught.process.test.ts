// Errors in a test that nobody catches: each fails the run, and is told.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from './support/temporary-folder.ts'

const TESTS = {
  'a rejection': `await null; Promise.reject(new Error('lost by a rejection')); await pause(20)`,
  'a timer': `await null; setTimeout(() => { throw new Error('lost by a timer') }); await pause(20)`,
}

test('what nobody catches, of a rejection or a timer, fails the run and is told', (t) => {
  const folder = temporaryFolder(t)
  const imports = `import { test } from 'node:test'\nimport { setTimeout as pause } from 'node:timers/promises'\n`
  const files = Object.entries(TESTS).map(([what, code]) => {
    const file = join(folder, `${what}.test.mjs`)
    writeFileSync(file, `${imports}test('fine', async () => { ${code} })\n`)
    return file
  })
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined }
  const argv = [join(import.meta.dirname, 'run.ts'), '--test-reporter=spec', ...files]
  const { status, stdout } = spawnSync(process.execPath, argv, { env, encoding: 'utf8' })
  assert.equal(status, 1, stdout)
  for (const what of Object.keys(TESTS)) assert.ok(stdout.includes(`lost by ${what}`), stdout)
  assert.match(stdout, /^ℹ fail 2$/m)
})
