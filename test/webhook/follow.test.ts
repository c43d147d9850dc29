// `webhook listen`: executions as they appear, each once and leased to nobody, also from a malicious service.

import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createReader, follow, Refused } from '../../src/cli/partners/webhook-listen.ts'
import { HOUR_MS } from '../../src/core/time.ts'
import { link, PRICE, plan, poll, sendFirst, tenantOf } from '../http/steps.ts'
import { each } from '../store/world.ts'
import { addCrowd } from '../support/large-database.ts'
import { listen, type Service, startService } from '../support/service.ts'

/** Follows a service; the call with the number `failAt` fails, counted from when it is set. */
async function following(t: TestContext, prepare: (service: Service) => Promise<unknown>) {
  const service = await startService(t)
  await prepare(service)
  const state = { failAt: 0, calls: 0 }
  const readFresh = await follow(async (path) => {
    state.calls += 1
    if (--state.failAt === 0) throw new Error('planted')
    const { status, body } = await service.call('GET', `/partner/v1${path}`)
    assert.equal(status, 200, JSON.stringify(body))
    return body
  })
  const fresh = async () => (await readFresh()).map(({ execution_id }) => execution_id)
  return { service, state, fresh }
}

test('what is there already is not fresh, what comes is fresh once, and a poll gets all of it', async (t) => {
  const { service, fresh } = await following(t, (service) => sendFirst(service, ['old']))
  assert.deepEqual(await fresh(), [])
  service.advance(1)
  await link(service, 'new')
  for (const id of ['p1', 'p2']) await plan(service, 'new', id)
  await service.tick(PRICE)
  const seen = await fresh()
  assert.equal(seen.length, 2)
  assert.deepEqual(await fresh(), [])
  const due = [...(await poll(service)).values()].flat()
  assert.deepEqual(each(due, 'execution_id'), seen)
  assert.deepEqual(each(due, 'delivered_count'), [1, 1])
  assert.deepEqual(await fresh(), [])
})

test('more than a page comes whole, also when the reading fails in the middle of it', async (t) => {
  const { service, state, fresh } = await following(t, async () => {})
  const { tenantId } = await tenantOf(service)
  addCrowd(service.file, tenantId, { user: 'crowd', plans: 350, status: 'pending' })
  service.advance(HOUR_MS)
  state.failAt = 3
  await assert.rejects(fresh(), /planted/)
  const first = await fresh()
  assert.deepEqual([new Set(first).size, first.length], [350, 350])
  state.calls = 0
  assert.deepEqual(await fresh(), [])
  assert.equal(state.calls, 1, 'a look that finds nothing reads one page')
})

test('what was dated before others and stored after them is not missed', async (t) => {
  const { service, fresh } = await following(t, async () => {})
  const { tenantId } = await tenantOf(service)
  service.advance(1_000)
  await link(service, 'u')
  await plan(service, 'u', 'p')
  await service.tick(PRICE)
  assert.equal((await fresh()).length, 1)
  // They are dated from a millisecond after T0 on.
  addCrowd(service.file, tenantId, { user: 'late', plans: 3, status: 'pending' })
  assert.equal((await fresh()).length, 3)
})

// The answers that `webhook listen` reads, from a malicious service.

async function readerOf(t: TestContext, answer: RequestListener) {
  const { port } = await listen(t, createServer(answer))
  const ended = new AbortController()
  const trouble = Promise.withResolvers<string>()
  const reader = createReader({
    url: `http://127.0.0.1:${port}`,
    key: 'sse_test_key',
    chance: () => 0,
    signal: ended.signal,
    onTrouble: trouble.resolve,
    onRecovery: () => {},
  })
  t.after(() => ended.abort())
  return { reader, trouble: trouble.promise, ended }
}

test('an answer that does not end is refused, and takes no memory', async (t) => {
  let sent = 0
  const { reader } = await readerOf(t, (_, response) => {
    const piece = Buffer.alloc(1 << 20, ' ')
    const more = (): void => {
      do sent += piece.length
      while (response.write(piece))
    }
    response.on('drain', more).on('error', () => {})
    more()
  })
  const isRefused = (error: Error) => error instanceof Refused && /longer than/.test(error.message)
  await assert.rejects(reader.once('/me'), isRefused)
  assert.ok(sent < 64 << 20, `${sent} bytes were taken`)
})

test('an answer that breaks off in the middle is asked for again', async (t) => {
  let asked = 0
  const { reader, trouble } = await readerOf(t, (_, response) => {
    asked += 1
    response.writeHead(200, { 'content-length': '100' })
    if (asked === 1) response.write('{"partner_slug":', () => response.destroy())
    else response.end(JSON.stringify({ partner_slug: 'acme' }).padEnd(100))
  })
  assert.deepEqual(await reader.patiently(() => reader.once('/me')), { partner_slug: 'acme' })
  assert.match(await trouble, /^The answer of http:\S+ broke off: .*; trying again in 1 s$/)
  assert.equal(asked, 2)
})

test('a wait longer than a timer can hold is a long wait, not none at all', async (t) => {
  let asked = 0
  const { reader, trouble, ended } = await readerOf(t, (_, response) => {
    asked += 1
    response.writeHead(503, { 'retry-after': '99999999999' }).end()
  })
  const ending = assert.rejects(reader.patiently(() => reader.once('/me')))
  assert.match(await trouble, /trying again in 3600 s$/)
  await pause(300)
  ended.abort()
  await ending
  assert.equal(asked, 1)
})
