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

for (const [what, code] of Object.entries(TESTS))
  test(`what ${what} throws fails the run`, (t) => {
    const file = join(temporaryFolder(t), 'lost.test.mjs')
    const imports = `import { test } from 'node:test'\nimport { setTimeout as pause } from 'node:timers/promises'\n`
    writeFileSync(file, `${imports}test('fine', async () => { ${code} })\n`)
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined }
    const argv = [join(import.meta.dirname, 'run.ts'), '--test-reporter=spec', file]
    const { status, stdout } = spawnSync(process.execPath, argv, { env, encoding: 'utf8' })
    assert.equal(status, 1, stdout)
    assert.ok(stdout.includes(`lost by ${what}`), stdout)
  })
