// What goes over the wire, and receivers that misbehave: each costs a failure of its own and no more.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createSecureServer } from 'node:http2'
import { join } from 'node:path'
import { test } from 'node:test'
import { signatureOf } from '../../src/webhook/signature.ts'
import { inParallel } from '../../src/webhook/wake-partners.ts'
import { makeAuthority } from '../support/certificate.ts'
import { listen } from '../support/service.ts'
import { freePort } from '../support/within.ts'
import { HOST_NAME, startMute, startReceiver } from './receiver.ts'
import { deliverer, deliveryTo, EARLIEST, SECRET } from './stage.ts'

const toPort = (port: number, path = '/hook') => deliveryTo(`https://127.0.0.1:${port}${path}`)

test('the request is a signed POST of the payload, to the path and query registered', async (t) => {
  const authority = makeAuthority(t)
  const receiver = await startReceiver(t, authority.issue('IP:127.0.0.1'))
  const deliver = deliverer({ caFile: authority.caFile })
  assert.deepEqual(await deliver(toPort(receiver.port, '/hook/%C3%A9?a=1&b=%20')), {
    statusCode: 204,
    reason: null,
  })
  const [seen] = receiver.received
  assert.ok(seen)
  assert.equal(seen.method, 'POST')
  assert.equal(seen.path, '/hook/%C3%A9?a=1&b=%20')
  const body = `{"event":"executions.available","partner_slug":"acme","environment":"test","count":3,"earliest_execution_id":"${EARLIEST}"}`
  assert.equal(seen.raw.toString('latin1'), body)
  assert.equal(seen.headers['content-type'], 'application/json')
  assert.equal(seen.headers['content-length'], String(body.length))
  assert.equal(seen.headers['x-service-event'], 'executions.available')
  assert.equal(seen.headers['x-service-signature'], signatureOf(SECRET, seen.raw))
  assert.equal(seen.headers.host, `127.0.0.1:${receiver.port}`)
  assert.ok(!JSON.stringify(seen.headers).includes(SECRET))
})

test('the header prefix is the operator’s', async (t) => {
  const authority = makeAuthority(t)
  const receiver = await startReceiver(t, authority.issue('IP:127.0.0.1'))
  await deliverer({ caFile: authority.caFile, headerPrefix: 'X-Acme' })(toPort(receiver.port))
  const { headers, raw } = receiver.received[0] ?? assert.fail('nothing came')
  assert.equal(headers['x-acme-event'], 'executions.available')
  assert.equal(headers['x-acme-signature'], signatureOf(SECRET, raw))
  assert.equal(headers['x-service-signature'], undefined)
})

/** Which status counts as delivered. */
const STATUSES: Record<number, string | null> = {
  200: null,
  202: null,
  204: null,
  299: null,
  301: 'HTTP 301',
  302: 'HTTP 302',
  307: 'HTTP 307',
  308: 'HTTP 308',
  400: 'HTTP 400',
  401: 'HTTP 401',
  404: 'HTTP 404',
  410: 'HTTP 410',
  429: 'HTTP 429',
  500: 'HTTP 500',
  503: 'HTTP 503',
}

test('a 2xx counts as delivered and nothing else does; a redirect is not followed', async (t) => {
  const authority = makeAuthority(t)
  const elsewhere = await startMute(t)
  const location = `https://127.0.0.1:${elsewhere.port}/`
  const receiver = await startReceiver(t, authority.issue('IP:127.0.0.1'), (response, _, { path }) =>
    response.writeHead(Number(path.slice(1)), { location, 'retry-after': '0' }).end(),
  )
  const deliver = deliverer({ caFile: authority.caFile })
  for (const [status, reason] of Object.entries(STATUSES))
    assert.deepEqual(await deliver(toPort(receiver.port, `/${status}`)), {
      statusCode: Number(status),
      reason,
    })
  assert.equal(receiver.received.length, Object.keys(STATUSES).length, 'one attempt each')
  assert.equal(elsewhere.connections(), 0)
})

test('a receiver that would rather speak HTTP/2 is spoken to in HTTP/1.1', async (t) => {
  const authority = makeAuthority(t)
  const versions: string[] = []
  const server = createSecureServer(
    { ...authority.issue('IP:127.0.0.1'), allowHTTP1: true },
    (request, response) => {
      versions.push(request.httpVersion)
      response.writeHead(204)
      response.end()
    },
  )
  const { port } = await listen(t, server)
  const attempt = await deliverer({ caFile: authority.caFile })(toPort(port))
  assert.deepEqual({ attempt, versions }, { attempt: { statusCode: 204, reason: null }, versions: ['1.1'] })
})

test('a certificate that is not trusted or names somebody else sends nothing', async (t) => {
  const authority = makeAuthority(t)
  const own = await startReceiver(t, authority.issue('IP:127.0.0.1'))
  const other = await startReceiver(t, authority.issue('DNS:other.example'))
  const stranger = makeAuthority(t)
  const resolve = async () => ['127.0.0.1']
  const trusting = deliverer({ caFile: authority.caFile, resolve })
  const cases = {
    'an authority nobody knows': {
      deliver: deliverer({}),
      port: own.port,
      says: /certificate.*--webhook-ca/,
    },
    'another private authority': {
      deliver: deliverer({ caFile: stranger.caFile }),
      port: own.port,
      says: /first certificate/,
    },
    'another name': { deliver: trusting, port: other.port, says: /does not match/ },
  }
  for (const [name, { deliver, port, says }] of Object.entries(cases)) {
    const attempt = await deliver(toPort(port))
    assert.equal(attempt.statusCode, null, name)
    assert.match(attempt.reason ?? 'delivered', says, name)
    assert.doesNotMatch(attempt.reason ?? '', /Node|--use-system-ca/, name)
  }
  const byName = await trusting(deliveryTo(`https://${HOST_NAME}:${own.port}/`))
  assert.match(byName.reason ?? 'delivered', /does not match/)
  assert.deepEqual([own.received, other.received], [[], []])
  assert.deepEqual(await trusting(toPort(own.port)), { statusCode: 204, reason: null })
})

test('a CA file that holds no certificate is an error before anything is sent', (t) => {
  const { folder } = makeAuthority(t)
  const files = { 'no certificate.pem': 'hello\n', 'empty.pem': '', 'broken.pem': brokenCertificate() }
  for (const [name, text] of Object.entries(files)) {
    const caFile = join(folder, name)
    writeFileSync(caFile, text)
    assert.throws(() => deliverer({ caFile }), /certificate/, name)
  }
  assert.throws(() => deliverer({ caFile: join(folder, 'missing.pem') }), /There is no file/)
  assert.throws(() => deliverer({ caFile: join(folder, 'ca.key') }), /certificate/)
})

const brokenCertificate = (): string =>
  `-----BEGIN CERTIFICATE-----\n${Buffer.from('no certificate').toString('base64')}\n-----END CERTIFICATE-----\n`

test('a refused connection and a receiver that hangs up have no status', async (t) => {
  const authority = makeAuthority(t)
  const deliver = deliverer({ caFile: authority.caFile })
  const refused = await deliver(toPort(await freePort()))
  assert.equal(refused.statusCode, null)
  assert.match(refused.reason ?? 'delivered', /ECONNREFUSED/)
  const rude = await startReceiver(t, authority.issue('IP:127.0.0.1'), (response) => response.destroy())
  const cut = await deliver(toPort(rude.port))
  assert.equal(cut.statusCode, null)
  assert.equal(typeof cut.reason, 'string')
  assert.equal(rude.received.length, 1, 'not tried again')
})

test('a body without end is not read on, and takes nothing from the delivery', async (t) => {
  const authority = makeAuthority(t)
  const chunk = Buffer.alloc(64 * 1024, 'x')
  let taken = 0
  const receiver = await startReceiver(t, authority.issue('IP:127.0.0.1'), (response) => {
    const feed = () => {
      while (!response.destroyed && response.write(chunk, () => (taken += chunk.length)));
    }
    response.writeHead(200).on('drain', feed)
    feed()
  })
  const attempt = await deliverer({ caFile: authority.caFile })(toPort(receiver.port))
  assert.deepEqual(attempt, { statusCode: 200, reason: null })
  // What the two sockets hold on the way, and no more.
  assert.ok(taken < 16 * 1024 * 1024, `${taken} bytes`)
})

test('headers without end are a failure, not memory', async (t) => {
  const authority = makeAuthority(t)
  const receiver = await startReceiver(t, authority.issue('IP:127.0.0.1'), (response) => {
    response.socket?.on('error', () => {})
    response.socket?.write(`HTTP/1.1 200 OK\r\n${`x-a: ${'y'.repeat(1000)}\r\n`.repeat(200)}`)
  })
  const attempt = await deliverer({ caFile: authority.caFile })(toPort(receiver.port))
  assert.equal(attempt.statusCode, null)
  assert.match(attempt.reason ?? 'delivered', /[Hh]eaders/)
})

test('as many run at once as the bound allows, and one that breaks does not leave the others unfinished', async () => {
  const items = Array.from({ length: 120 }, (_, index) => index)
  let running = 0
  let most = 0
  const done: number[] = []
  const broken = inParallel(items, async (item) => {
    running += 1
    most = Math.max(most, running)
    await new Promise((resolve) => setImmediate(resolve))
    running -= 1
    if (item === 3) throw new Error('the database is locked')
    done.push(item)
  })
  await assert.rejects(broken, /the database is locked/)
  assert.equal(most, 50)
  assert.equal(running, 0)
  assert.deepEqual(
    done.toSorted((a, b) => a - b),
    items.filter((item) => item !== 3),
  )
  await inParallel([], () => assert.fail('nothing to do'))
})
