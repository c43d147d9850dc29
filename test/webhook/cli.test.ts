// The operator's and the integrator's commands: webhook show, test and verify.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { payloadOf } from '../../src/core/webhook.ts'
import { isSignature, signatureOf } from '../../src/webhook/signature.ts'
import { huntFor } from '../security/hunt.ts'
import { temporaryFolder } from '../support/database.ts'
import { runHere } from '../support/service.ts'
import { deliveryTo, LOOPBACK, SECRET, startReceiver, startStage } from './stage.ts'

const BODY = payloadOf(deliveryTo('https://hook.example/'))
const GOOD = signatureOf(SECRET, BODY)

const VERIFY = ['--json', 'webhook', 'verify', '--signature']

/** A file with the secret, as an editor leaves it. */
function secretFile(t: TestContext, text = `${SECRET}\r\n`): string {
  const file = join(temporaryFolder(t), 'secret')
  writeFileSync(file, text)
  return file
}

test('verify: a signature that matches exits 0, one that does not 3 with what is likely', async (t) => {
  const given = [GOOD, '--secret-file', secretFile(t)]
  const json = await runHere([...VERIFY, ...given], { input: BODY })
  assert.deepEqual(json, { code: 0, out: '{"valid":true,"reason":null}\n', err: '' })
  const words = await runHere([...VERIFY.slice(1), ...given], { input: BODY })
  assert.deepEqual(words, { code: 0, out: 'valid\n', err: '' })
  const broken = await runHere([...VERIFY.slice(1), ...given], { input: `${BODY}\n` })
  const why = 'not valid: the body has a line break at its end that was not sent\n'
  assert.deepEqual([broken.code, broken.out], [3, why])
})

test('verify: the secret comes from the environment, unless a file is named, and one of both it must be', async (t) => {
  t.after(() => delete process.env.TRANCHE_WEBHOOK_SECRET)
  for (const [secret, more, expected] of [
    [undefined, [], 2],
    [SECRET, [], 0],
    ['x', [], 3],
    ['x', ['--secret-file', secretFile(t, SECRET)], 0],
  ] as const) {
    if (secret !== undefined) process.env.TRANCHE_WEBHOOK_SECRET = secret
    assert.equal((await runHere([...VERIFY, GOOD, ...more], { input: BODY })).code, expected)
  }
  const empty = await runHere([...VERIFY, GOOD, '--secret-file', secretFile(t, '\n')], { input: BODY })
  assert.deepEqual([empty.code, empty.out], [1, ''])
  assert.match(JSON.parse(empty.err).error.message, /holds no secret\.$/)
})

test('no command shows the secret of a webhook, in words or in JSON', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  const hunt = huntFor({ webhook: await stage.register(receiver.port) })
  const ofTest = ['acme', '--env', 'test']
  for (const argv of [
    ['webhook', 'show', ...ofTest],
    ['webhook', 'test', ...ofTest, '--webhook-allow-cidr', LOOPBACK],
    ...[['partner', 'show', 'acme'], ['partner', 'list'], ['status'], ['check'], ['audit']],
  ])
    for (const more of [[], ['--json']]) {
      const { out, err } = await runHere(['--db', stage.file, ...argv, ...more])
      assert.notEqual(out + err, '', argv.join(' '))
      hunt.assertClean(out + err, argv.join(' '))
    }
})

test('test sends a signed wake-up of nothing and changes no counter', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'), (response, _, { path }) =>
    response.writeHead(path === '/hook' ? 202 : 500).end(),
  )
  const flags = ['--webhook-allow-cidr', LOOPBACK, '--webhook-ca', stage.authority.caFile]
  const run = (...more: string[]) =>
    runHere(['--db', stage.file, '--json', 'webhook', 'test', 'acme', '--env', 'test', ...more])
  assert.equal((await run(...flags)).code, 4, 'there is none yet')

  const secret = await stage.register(receiver.port)
  const before = await stage.webhook()
  const sent = await run(...flags, '--webhook-header-prefix', 'X-Brand')
  assert.equal(sent.code, 0, sent.err)
  const { duration_ms, ...answer } = JSON.parse(sent.out)
  assert.deepEqual(answer, { delivered: true, url: before.url, status_code: 202, reason: null })
  assert.equal(typeof duration_ms, 'number')
  const { raw, headers } = receiver.received[0] ?? assert.fail('nothing came')
  assert.ok(isSignature(String(headers['x-brand-signature']), secret, raw))
  // What it says may name an address inside: the partner reads no record of it.
  assert.deepEqual(await stage.store.listDeliveries(await stage.tenant()), [])

  const refused = await run()
  assert.equal(refused.code, 1)
  assert.match(
    JSON.parse(refused.out).reason,
    /not on the public internet \(loopback\); --webhook-allow-cidr 127\.0\.0\.1\/32 allows it\.$/,
  )
  assert.deepEqual(await stage.webhook(), before)

  await stage.register(receiver.port, '/broken')
  const failed = await run(...flags)
  assert.deepEqual([failed.code, JSON.parse(failed.out).reason], [1, 'HTTP 500'])
  assert.ok(![sent, refused, failed].some(({ out, err }) => `${out}${err}`.includes('sse_whsec_')))
})
