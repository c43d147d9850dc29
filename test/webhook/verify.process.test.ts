// Signatures as openssl computes them, and `webhook verify` in a process whose environment has the secret.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { payloadOf } from '../../src/core/webhook.ts'
import { signatureOf } from '../../src/webhook/signature.ts'
import { temporaryFolder } from '../support/database.ts'
import { start } from '../support/process.ts'
import { deliveryTo, SECRET } from './stage.ts'

const BODY = payloadOf(deliveryTo('https://hook.example/'))
const GOOD = signatureOf(SECRET, BODY)

test('openssl computes the same signature, keyed with the whole secret', () => {
  const printed = execFileSync('openssl', ['dgst', '-sha256', '-hmac', SECRET], {
    input: BODY,
    encoding: 'utf8',
  })
  assert.equal(GOOD, `sha256=${printed.trim().split(' ').at(-1)}`)
  assert.match(GOOD, /^sha256=[0-9a-f]{64}$/)
})

test('verify: the secret comes from the environment, unless a file is named', async (t) => {
  const cwd = temporaryFolder(t)
  writeFileSync(join(cwd, 'secret'), SECRET)
  const variable = async (secret: string, more: string[] = []) => {
    const env = { TRANCHE_WEBHOOK_SECRET: secret }
    const argv = ['webhook', 'verify', '--signature', GOOD, ...more]
    const started = start(t, argv, { env, cwd })
    started.child.stdin.end(BODY)
    const code = await started.ended
    return [code, started.err()]
  }
  const outcomes = [variable(SECRET), variable('x', ['--secret-file', 'secret'])]
  assert.deepEqual(await Promise.all(outcomes), [
    [0, ''],
    [0, ''],
  ])
})
