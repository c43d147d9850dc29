// `webhook listen` as a developer runs it, and signatures as openssl computes them.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { payloadOf } from '../../src/core/webhook.ts'
import { isSignature, signatureOf } from '../../src/webhook/signature.ts'
import { link, PRICE, plan, poll, revokeKey } from '../http/steps.ts'
import { each } from '../store/world.ts'
import { temporaryFolder } from '../support/database.ts'
import { start } from '../support/process.ts'
import { runHere, type Service, startService } from '../support/service.ts'
import { freePort } from '../support/within.ts'
import { deliveryTo, SECRET } from './stage.ts'

type Received = { headers: IncomingMessage['headers']; raw: Buffer }

/** A receiver on plain HTTP, as on a laptop. */
async function startReceiver(t: TestContext, { port = 0, status = 204 } = {}) {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    received.push({ headers: request.headers, raw: Buffer.concat(chunks) })
    response.writeHead(status).end()
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => void server.close())
  return { received, port: (server.address() as AddressInfo).port }
}

async function stage(t: TestContext) {
  const service = await startService(t)
  await link(service, 'u')
  const folder = temporaryFolder(t)
  const keyFile = join(folder, 'key')
  writeFileSync(keyFile, `${service.key}\n`)
  const listen = (...more: string[]) => {
    const where = ['--url', service.url, '--key-file', keyFile, '--every', '1s']
    return start(t, ['webhook', 'listen', ...where, ...more], { cwd: folder })
  }
  return { service, folder, keyFile, listen }
}

/** Fires the first tranche of so many new plans in one tick. */
async function fire(service: Service, ...plans: string[]): Promise<void> {
  for (const id of plans) await plan(service, 'u', id)
  await service.tick(PRICE)
  service.advance(1)
}

suite('webhook listen', { concurrency: 4 }, () => {
  test('forwards what a tick created, as the service would have sent it, and leases nothing', async (t) => {
    const { service, listen } = await stage(t)
    const { received, port } = await startReceiver(t)
    const listener = listen('--forward-to', `http://localhost:${port}/hook`, '--json')
    const begun = JSON.parse(await listener.prints('\n'))
    assert.match(begun.secret, /^sse_whsec_[\w-]{43}$/)
    await fire(service, 'p1', 'p2')
    const told = JSON.parse((await listener.prints((out) => out.split('\n').length > 2)).split('\n')[1] ?? '')
    const [wakeUp] = received
    assert.ok(wakeUp)
    assert.partialDeepStrictEqual(told, { count: 2, delivered: true, status_code: 204, reason: null })
    const { 'x-service-event': event, 'x-service-signature': signature } = wakeUp.headers
    assert.equal(event, 'executions.available')
    assert.ok(isSignature(String(signature), begun.secret, wakeUp.raw))
    assert.deepEqual(Object.keys(wakeUp.headers).sort(), [
      ...['connection', 'content-length', 'content-type', 'host', 'user-agent'],
      ...['x-service-event', 'x-service-signature'],
    ])
    const payload =
      `{"event":"executions.available","partner_slug":"acme","environment":"test","count":2,` +
      `"earliest_execution_id":"${told.earliest_execution_id}"}`
    assert.equal(wakeUp.raw.toString(), payload)
    const due = [...(await poll(service)).values()].flat()
    assert.deepEqual(each(due, 'delivered_count'), [1, 1], 'the poll of the partner is the first delivery')
    assert.equal(due[0]?.execution_id, told.earliest_execution_id)
    listener.child.kill('SIGINT')
    assert.equal(await listener.ended, 130)
    assert.equal(received.length, 1)
  })

  test('goes on when the receiver is down, signs with the secret given, and ends with a revoked key', async (t) => {
    const { service, folder, listen } = await stage(t)
    const port = await freePort()
    const secretFile = join(folder, 'secret')
    writeFileSync(secretFile, 'sse_whsec_kept\n')
    const listener = listen('--forward-to', `http://127.0.0.1:${port}`, '--secret-file', secretFile)
    await listener.line('Waiting for executions')
    assert.doesNotMatch(listener.out(), /kept/)
    await fire(service, 'p1')
    await listener.prints('NOT delivered: the connection was refused (ECONNREFUSED)')
    const { received } = await startReceiver(t, { port })
    await fire(service, 'p2')
    await listener.prints('count 1 answered 204 in ')
    const [wakeUp, ...more] = received
    const signature = String(wakeUp?.headers['x-service-signature'])
    assert.ok(isSignature(signature, 'sse_whsec_kept', wakeUp?.raw ?? ''))
    assert.deepEqual(more, [], 'one that failed is not sent again')

    await revokeKey(service, service.key)
    assert.equal(await listener.ended, 1)
    assert.match(listener.err(), /error: The service at \S+ answered 401: Invalid API key\.\n$/)
  })

  test('says at once what is wrong at its start', async (t) => {
    const { service, folder, keyFile } = await stage(t)
    writeFileSync(join(folder, 'no-key'), 'hello')
    const empty = join(folder, 'empty')
    writeFileSync(empty, '\n')
    const nowhere = `http://127.0.0.1:${await freePort()}`
    const cases: [code: number, said: RegExp, argv: string[]][] = [
      [1, /cannot be reached: the connection was refused/, ['--url', nowhere, '--key-file', keyFile]],
      [1, /no-key holds no API key/, ['--url', service.url, '--key-file', join(folder, 'no-key')]],
      [4, /nothing/, ['--url', service.url, '--key-file', join(folder, 'nothing')]],
      [1, /empty holds no secret/, ['--url', service.url, '--key-file', keyFile, '--secret-file', empty]],
      [2, /--webhook-ca: \S+empty holds no certificate/, ['--key-file', keyFile, '--webhook-ca', empty]],
    ]
    for (const [code, said, argv] of cases) {
      const ended = await runHere(['webhook', 'listen', '--forward-to', 'http://localhost:9000', ...argv])
      assert.match(ended.err, said)
      assert.deepEqual([ended.code, ended.out], [code, ''], ended.err)
    }
  })
})

test('openssl computes the same signature, keyed with the whole secret', () => {
  const input = payloadOf(deliveryTo('https://hook.example/'))
  const printed = execFileSync('openssl', ['dgst', '-sha256', '-hmac', SECRET], { input, encoding: 'utf8' })
  assert.equal(signatureOf(SECRET, input), `sha256=${printed.trim().split(' ').at(-1)}`)
})
