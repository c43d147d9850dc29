// Requests on the wire, receivers that misbehave, how deliveries are counted, and when a webhook is paused.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Instant } from '../../src/core/time.ts'
import { type Attempt, noteAttempt, type Webhook } from '../../src/core/webhook.ts'
import { signatureOf } from '../../src/webhook/signature.ts'
import { inParallel } from '../../src/webhook/wake-partners.ts'
import { each } from '../store/world.ts'
import { makeAuthority } from '../support/certificate.ts'
import { refuse, rowsOf } from '../support/database.ts'
import { runHere, T0 } from '../support/service.ts'
import {
  type Answering,
  AT_T0,
  deliverer,
  deliveryTo,
  HOST_NAME,
  SECRET,
  startMute,
  startReceiver,
  startStage,
  WEBHOOKS,
} from './stage.ts'

const toPort = (port: number, path = '/hook') => deliveryTo(`https://127.0.0.1:${port}${path}`)

test('the request is signed, and goes to the path and query registered', async (t) => {
  const authority = makeAuthority(t)
  const receiver = await startReceiver(t, authority.issue('IP:127.0.0.1'))
  const path = '/hook/%C3%A9?a=1&b=%20'
  const attempt = await deliverer({ caFile: authority.caFile })(toPort(receiver.port, path))
  assert.partialDeepStrictEqual(attempt, { statusCode: 204, reason: null })
  const [seen] = receiver.received
  assert.ok(seen)
  assert.equal(seen.path, path)
  assert.equal(seen.headers['content-type'], 'application/json')
  assert.equal(seen.headers['content-length'], String(seen.raw.length))
  assert.equal(seen.headers['x-service-signature'], signatureOf(SECRET, seen.raw))
  assert.equal(seen.headers.host, `127.0.0.1:${receiver.port}`)
  assert.ok(!JSON.stringify(seen.headers).includes(SECRET))
})

/** The statuses that count as delivered. */
const DELIVERED = [200, 204, 299]
const NOT_DELIVERED = [301, 308, 400, 410, 503]

test('a 2xx counts as delivered and nothing else does; a redirect is not followed', async (t) => {
  const authority = makeAuthority(t)
  const elsewhere = await startMute(t)
  const location = `https://127.0.0.1:${elsewhere.port}/`
  const receiver = await startReceiver(t, authority.issue('IP:127.0.0.1'), (response, _, { path }) =>
    response.writeHead(Number(path.slice(1)), { location, 'retry-after': '0' }).end(),
  )
  const send = deliverer({ caFile: authority.caFile })
  const statuses = [...DELIVERED, ...NOT_DELIVERED]
  for (const statusCode of statuses) {
    const reason = DELIVERED.includes(statusCode) ? null : `HTTP ${statusCode}`
    const attempt = await send(toPort(receiver.port, `/${statusCode}`))
    assert.partialDeepStrictEqual(attempt, { statusCode, reason })
  }
  assert.equal(receiver.received.length, statuses.length, 'one attempt each')
  assert.equal(elsewhere.connections(), 0)
})

test('a certificate that is not trusted or names somebody else sends nothing', async (t) => {
  const authority = makeAuthority(t)
  const own = await startReceiver(t, authority.issue('IP:127.0.0.1'))
  const other = await startReceiver(t, authority.issue('DNS:other.example'))
  const trusting = deliverer({ caFile: authority.caFile, resolve: async () => ['127.0.0.1'] })
  for (const [send, to, says] of [
    [deliverer({}), toPort(own.port), /authority that is not trusted .*--webhook-ca/],
    [deliverer({ caFile: makeAuthority(t).caFile }), toPort(own.port), /authority that is not trusted/],
    [trusting, toPort(other.port), /for another name/],
    [trusting, deliveryTo(`https://${HOST_NAME}:${own.port}/`), /for another name/],
  ] as const) {
    const { statusCode, reason } = await send(to)
    assert.equal(statusCode, null)
    assert.match(reason ?? 'delivered', says)
  }
  assert.deepEqual([own.received, other.received], [[], []])
  assert.partialDeepStrictEqual(await trusting(toPort(own.port)), { statusCode: 204, reason: null })
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
  assert.partialDeepStrictEqual(attempt, { statusCode: 200, reason: null })
  // No more than the buffers of the two sockets.
  assert.ok(taken < 16 * 1024 * 1024, `${taken} bytes`)
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
  assert.deepEqual([most, running], [50, 0])
  done.sort((a, b) => a - b)
  assert.deepEqual(done, items.toSpliced(3, 1))
  await inParallel([], () => assert.fail('nothing to do'))
})

// How deliveries are counted, when a webhook is paused, and the effect of a new registration.

const LATER = (T0 + 60_000) as Instant
const SEEN: Webhook = deliveryTo('https://hook.example/').webhook
const ANSWERED: Attempt = { statusCode: 503, reason: 'HTTP 503', durationMs: 5 }
const UNREACHED: Attempt = { statusCode: null, reason: 'ECONNREFUSED', durationMs: 5 }
const HTTP_503 = { at: LATER, reason: 'HTTP 503' }
const REFUSED = { at: LATER, reason: 'ECONNREFUSED' }
const ONCE = { consecutiveFailures: 1 }
const TAKEN: Attempt = { statusCode: 202, reason: null, durationMs: 5 }

/** The webhook before, the result of the attempt, and the members that change. */
const OUTCOMES: Record<string, [seen: Partial<Webhook>, attempt: Attempt, change: Partial<Webhook>]> = {
  'a success after failures': [
    { consecutiveFailures: 9, lastStatusCode: 500, lastFailure: { at: T0, reason: 'HTTP 500' } },
    TAKEN,
    { consecutiveFailures: 0, lastStatusCode: 202, lastDeliveredAt: LATER },
  ],
  'a failure with an answer': [{}, ANSWERED, { ...ONCE, lastStatusCode: 503, lastFailure: HTTP_503 }],
  'a failure without one': [
    { lastStatusCode: 200, lastDeliveredAt: T0 },
    UNREACHED,
    { ...ONCE, lastFailure: REFUSED },
  ],
  'the tenth failure': [
    { consecutiveFailures: 9 },
    UNREACHED,
    { consecutiveFailures: 10, status: 'paused', updatedAt: LATER, lastFailure: REFUSED },
  ],
  'a failure that was under way at the pause': [
    { consecutiveFailures: 10, status: 'paused' },
    UNREACHED,
    { consecutiveFailures: 11, lastFailure: REFUSED },
  ],
}

test('each outcome changes these members and no other', () => {
  for (const [name, [seen, attempt, change]] of Object.entries(OUTCOMES)) {
    const before = { ...SEEN, ...seen }
    assert.deepEqual(noteAttempt(before, attempt, LATER), { ...before, ...change }, name)
  }
})

test('what a reason says is bounded, and a receiver decides some of it', () => {
  const { lastFailure } = noteAttempt(SEEN, { ...UNREACHED, reason: '\u{1f600}'.repeat(10_000) }, LATER)
  assert.equal(lastFailure?.reason, '\u{1f600}'.repeat(500))
})

/** A stage with one receiver whose answers the test sets. */
async function withReceiver(t: Parameters<typeof startStage>[0]) {
  const stage = await startStage(t)
  const answers = { status: 500 }
  const answer: Answering = (response) => void response.writeHead(answers.status).end()
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'), answer)
  let passes = 0
  /** Each pass fires the first unit of a plan of its own. */
  const passAnswering = async (status: number): Promise<{ sent: number; failed: number }> => {
    answers.status = status
    stage.advance(60_000)
    await stage.addPlan(`u${passes++}`)
    return stage.pass()
  }
  const seen = async () => {
    const { status, body } = await stage.call('GET', WEBHOOKS)
    assert.equal(status, 200)
    return body
  }
  return { stage, receiver, passAnswering, seen }
}

test('the tenth failure in a row pauses: nothing is sent until an operator resumes, with the same secret', async (t) => {
  const { stage, receiver, passAnswering, seen } = await withReceiver(t)
  const tranche = (...argv: string[]) => runHere(['--db', stage.file, '--json', ...argv])
  const none = await tranche('webhook', 'resume', 'acme', '--env', 'test')
  assert.deepEqual([none.code, JSON.parse(none.err).error.code], [4, 'webhook_not_found'])
  const secret = await stage.register(receiver.port)
  for (let failures = 1; failures <= 9; failures += 1) {
    assert.deepEqual(await passAnswering(500), { sent: 0, failed: 1 })
    const { status, consecutive_failures } = await seen()
    assert.deepEqual({ status, consecutive_failures }, { status: 'active', consecutive_failures: failures })
  }
  assert.deepEqual(await passAnswering(503), { sent: 0, failed: 1 })
  const paused = await seen()
  assert.deepEqual([paused.status, paused.consecutive_failures, paused.last_status_code], ['paused', 10, 503])
  assert.deepEqual([paused.last_failure_reason, paused.last_failed_at], ['HTTP 503', paused.updated_at])
  assert.deepEqual([paused.last_delivered_at, paused.secret], [null, undefined])
  assert.deepEqual(each(stage.warnings, 'message'), [
    'webhook of acme test has failed 5 times in a row (HTTP 500)',
    'webhook of acme test is paused after 10 failures (HTTP 503)',
  ])

  assert.deepEqual(await passAnswering(200), { sent: 0, failed: 0 })
  assert.equal(receiver.received.length, 10)

  const resumed = await tranche('webhook', 'resume', 'acme', '--env', 'test')
  assert.equal(resumed.code, 0, resumed.err)
  const lifted = await seen()
  assert.deepEqual(JSON.parse(resumed.out), lifted)
  const { status, consecutive_failures, last_failure_reason } = lifted
  assert.deepEqual([status, consecutive_failures, last_failure_reason], ['active', 0, 'HTTP 503'])
  assert.equal((await stage.webhook()).secret, secret)
  const before = await stage.webhook()
  assert.equal((await tranche('webhook', 'resume', 'acme', '--env', 'test')).code, 0)
  assert.deepEqual(await stage.webhook(), before, 'one that is not paused stays as it is')

  assert.deepEqual(await passAnswering(200), { sent: 1, failed: 0 })
  const again = await seen()
  assert.deepEqual([again.status, again.created_at, again.last_status_code], ['active', AT_T0, 200])
  assert.ok(!JSON.stringify(stage.warnings).includes('sse_whsec_'))
})

test('attempts under way at the pause warn of it once', async (t) => {
  const { stage, receiver, passAnswering } = await withReceiver(t)
  await stage.register(receiver.port)
  for (let failure = 1; failure <= 9; failure += 1) await passAnswering(500)
  // Two passes have their attempts in flight together: their failures are the tenth and the eleventh.
  const end = Promise.withResolvers<Attempt>()
  const startPass = async (plan: string) => {
    await stage.addPlan(plan)
    const sending = Promise.withResolvers<void>()
    const outcome = stage.pass(undefined, () => {
      sending.resolve()
      return end.promise
    })
    await sending.promise
    stage.advance(60_000)
    return { outcome }
  }
  const passes = [await startPass('a'), await startPass('b')]
  end.resolve(ANSWERED)
  await Promise.all(passes.map(({ outcome }) => outcome))
  assert.equal((await stage.webhook()).consecutiveFailures, 11)
  assert.equal(stage.warnings.filter(({ message }) => message.includes('paused')).length, 1)
})

test('a store that cannot enter an attempt is a warning: the wake-up was sent, and counts as sent', async (t) => {
  const { stage, receiver, passAnswering } = await withReceiver(t)
  await stage.register(receiver.port)
  const rows = await rowsOf(t, stage.file)
  await refuse(rows, { verb: 'insert', table: 'webhooks', message: 'no room' })
  assert.deepEqual(await passAnswering(204), { sent: 1, failed: 0 })
  assert.equal(receiver.received.length, 1)
  assert.deepEqual(each(stage.warnings, 'message'), ['webhooks failed: no room'])
})
