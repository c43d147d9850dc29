// What partner.ts says on a Node that does not run TypeScript.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Script } from 'node:vm'
import { finish } from '../support/process.ts'
import { EXAMPLES } from './stage.ts'

const cwd = join(EXAMPLES, 'typescript')

test('partner.ts says in one sentence what it needs, to any Node', async (t) => {
  // An old Node reads the file as JavaScript.
  assert.doesNotThrow(() => new Script(readFileSync(join(cwd, 'partner.ts'), 'utf8')))
  const program = [process.execPath, '--no-strip-types'] as const
  const { code, out, err } = await finish(t, ['partner.ts'], { cwd, program })
  assert.deepEqual([code, out], [1, ''])
  assert.match(err, /^This program needs Node\.js 22\.18 or later, [^\n]+; this is v\d+\.\d+\.\d+\.\n$/)
})
