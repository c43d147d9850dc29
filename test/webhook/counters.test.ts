// How deliveries are counted, when a webhook is paused, and what a new registration makes of it.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Instant } from '../../src/core/time.ts'
import type { Webhook } from '../../src/core/webhook.ts'
import { type Attempt, noteAttempt } from '../../src/core/webhook.ts'
import { refuse, rowsOf } from '../support/database.ts'
import { runHere, T0 } from '../support/service.ts'
import { freePort } from '../support/within.ts'
import { type Answering, startReceiver } from './receiver.ts'
import { AT_T0, deliverer, deliveryTo, startStage, WEBHOOKS } from './stage.ts'

const LATER = (T0 + 60_000) as Instant
const SEEN: Webhook = deliveryTo('https://hook.example/').webhook
const ANSWERED: Attempt = { statusCode: 503, reason: 'HTTP 503' }
const UNREACHED: Attempt = { statusCode: null, reason: 'ECONNREFUSED' }
const HTTP_503 = { at: LATER, reason: 'HTTP 503' }
const REFUSED = { at: LATER, reason: 'ECONNREFUSED' }
const TAKEN: Attempt = { statusCode: 202, reason: null }

/** What is seen, how the attempt ended, and the members that change. */
const OUTCOMES: Record<string, [seen: Partial<Webhook>, attempt: Attempt, change: Partial<Webhook>]> = {
  'a first success': [{}, TAKEN, { lastStatusCode: 202, lastDeliveredAt: LATER }],
  'a success after failures': [
    { consecutiveFailures: 9, lastStatusCode: 500, lastFailure: { at: T0, reason: 'HTTP 500' } },
    TAKEN,
    { consecutiveFailures: 0, lastStatusCode: 202, lastDeliveredAt: LATER },
  ],
  'a failure with an answer': [
    {},
    ANSWERED,
    { consecutiveFailures: 1, lastStatusCode: 503, lastFailure: HTTP_503 },
  ],
  'a failure without one': [
    { lastStatusCode: 200, lastDeliveredAt: T0 },
    UNREACHED,
    { consecutiveFailures: 1, lastFailure: REFUSED },
  ],
  'the ninth failure': [
    { consecutiveFailures: 8 },
    ANSWERED,
    { consecutiveFailures: 9, lastStatusCode: 503, lastFailure: HTTP_503 },
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
  'a success that was under way at the pause': [
    { consecutiveFailures: 10, status: 'paused' },
    TAKEN,
    { consecutiveFailures: 0, lastStatusCode: 202, lastDeliveredAt: LATER },
  ],
}

test('each outcome changes these members and no other', () => {
  for (const [name, [seen, attempt, change]] of Object.entries(OUTCOMES)) {
    const before = { ...SEEN, ...seen }
    assert.deepEqual(noteAttempt(before, attempt, LATER), { ...before, ...change }, name)
  }
})

test('what a reason says is bounded, and a receiver decides some of it', () => {
  const { lastFailure } = noteAttempt(SEEN, { statusCode: null, reason: '\u{1f600}'.repeat(10_000) }, LATER)
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

test('the tenth failure in a row pauses: nothing is sent until the webhook is registered again', async (t) => {
  const { stage, receiver, passAnswering, seen } = await withReceiver(t)
  const first = await stage.register(receiver.port)
  for (let failures = 1; failures <= 9; failures += 1) {
    assert.deepEqual(await passAnswering(500), { sent: 0, failed: 1 })
    const { status, consecutive_failures } = await seen()
    assert.deepEqual({ status, consecutive_failures }, { status: 'active', consecutive_failures: failures })
  }
  assert.deepEqual(await passAnswering(503), { sent: 0, failed: 1 })
  const paused = await seen()
  assert.equal(paused.status, 'paused')
  assert.equal(paused.consecutive_failures, 10)
  assert.equal(paused.last_status_code, 503)
  assert.deepEqual([paused.last_failure_reason, paused.last_failed_at], ['HTTP 503', paused.updated_at])
  assert.equal(paused.last_delivered_at, null)
  assert.equal(paused.secret, undefined)
  assert.deepEqual(
    stage.warnings.map(({ message }) => message),
    [
      'webhook of acme test has failed 5 times in a row (HTTP 500)',
      'webhook of acme test is paused after 10 failures (HTTP 503)',
    ],
  )
  assert.deepEqual(
    (await stage.store.countWebhooks()).map(({ status }) => status),
    ['paused'],
  )

  assert.deepEqual(await passAnswering(200), { sent: 0, failed: 0 })
  assert.equal(receiver.received.length, 10)

  assert.notEqual(await stage.register(receiver.port), first)
  assert.deepEqual(await passAnswering(200), { sent: 1, failed: 0 })
  const again = await seen()
  assert.equal(again.status, 'active')
  assert.equal(again.created_at, AT_T0)
  assert.equal(again.consecutive_failures, 0)
  assert.equal(again.last_status_code, 200)
  assert.deepEqual(
    (await stage.store.countWebhooks()).map(({ status }) => status),
    ['active'],
  )
  assert.ok(!JSON.stringify(stage.warnings).includes('sse_whsec_'))
})

test('an operator lifts a pause: the same secret, the counters at the start, the last reason kept', async (t) => {
  const { stage, passAnswering, seen } = await withReceiver(t)
  const tranche = (...argv: string[]) => runHere(['--db', stage.file, '--json', ...argv])
  const resume = () => tranche('webhook', 'resume', 'acme', '--env', 'test')
  const none = await resume()
  assert.deepEqual([none.code, JSON.parse(none.err).error.code], [4, 'webhook_not_found'])
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  const secret = await stage.register(receiver.port, '/paused')
  const tenant = await stage.tenant()
  for (let n = 0; n < 10; n += 1)
    await stage.store.changeWebhook(tenant, (webhook) =>
      noteAttempt(webhook ?? assert.fail('none'), ANSWERED, LATER),
    )
  assert.deepEqual(await passAnswering(200), { sent: 0, failed: 0 })

  const resumed = await resume()
  assert.equal(resumed.code, 0, resumed.err)
  assert.deepEqual(JSON.parse(resumed.out), await seen())
  const { status, consecutive_failures, last_failure_reason } = await seen()
  assert.deepEqual([status, consecutive_failures, last_failure_reason], ['active', 0, 'HTTP 503'])
  assert.equal((await stage.webhook()).secret, secret)
  assert.deepEqual(await passAnswering(200), { sent: 1, failed: 0 })
  const audit = JSON.parse((await tranche('audit')).out).at(-1)
  assert.deepEqual([audit.action, audit.subject], ['webhook.resume', 'acme test'])
  const before = await stage.webhook()
  assert.equal((await resume()).code, 0, 'one that is not paused stays as it is')
  assert.deepEqual(await stage.webhook(), before)
})

test('nine failures and a success begin the count anew', async (t) => {
  const { stage, receiver, passAnswering, seen } = await withReceiver(t)
  await stage.register(receiver.port)
  for (const status of [...Array<number>(9).fill(500), 204]) await passAnswering(status)
  assert.equal((await seen()).consecutive_failures, 0)
  for (let failure = 1; failure <= 9; failure += 1) await passAnswering(302)
  const nine = await seen()
  assert.deepEqual([nine.status, nine.consecutive_failures, nine.last_status_code], ['active', 9, 302])
  const delivered = nine.last_delivered_at
  assert.notEqual(delivered, null)
  await passAnswering(500)
  assert.equal((await seen()).status, 'paused')
  assert.equal((await seen()).last_delivered_at, delivered)
})

test('a network error leaves the last status code as it was', async (t) => {
  const { stage, receiver, passAnswering, seen } = await withReceiver(t)
  await stage.register(receiver.port)
  await passAnswering(418)
  await stage.addPlan('unreached')
  // The same registration, reached from a host whose authorities do not know the receiver's.
  assert.deepEqual(await stage.pass(undefined, deliverer({})), { sent: 0, failed: 1 })
  const { last_status_code, consecutive_failures } = await seen()
  assert.deepEqual(
    { last_status_code, consecutive_failures },
    { last_status_code: 418, consecutive_failures: 2 },
  )
})

test('what becomes of an attempt says nothing of the registration that replaced it meanwhile', async (t) => {
  for (const replacement of ['registered', 'deleted'] as const) {
    const stage = await startStage(t)
    const meanwhile: Answering = async (response) => {
      if (replacement === 'deleted') await stage.call('DELETE', WEBHOOKS)
      else await stage.register(await freePort(), '/new')
      response.writeHead(500).end()
    }
    const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'), meanwhile)
    await stage.register(receiver.port)
    await stage.addPlan('u1')
    assert.deepEqual(await stage.pass(), { sent: 0, failed: 1 })
    const { body } = await stage.call('GET', WEBHOOKS)
    if (replacement === 'deleted') assert.equal(body.url, null)
    else {
      assert.match(body.url, /\/new$/)
      assert.deepEqual([body.consecutive_failures, body.last_status_code, body.status], [0, null, 'active'])
    }
    assert.deepEqual(stage.warnings, [])
  }
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
  assert.deepEqual(
    stage.warnings.map(({ message }) => message),
    ['webhooks failed: no room'],
  )
})
