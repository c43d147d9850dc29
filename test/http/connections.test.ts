// Bodies and connections: sizes, lengths that lie, clients that leave in the middle.

import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import type { Log } from '../../src/log.ts'
import { fill, startService, USER } from '../support/service.ts'
import { chunk, exchange, head, LAST_CHUNK } from './raw.ts'
import { assertSound, confirmPath, sendFirst, succeed, USERS } from './steps.ts'

const ME = '/partner/v1/me'
const LIMIT = 65_536
const PADDING = 'y'.repeat(LIMIT)
/** A valid body of exactly `bytes` bytes. */
const bodyOf = (bytes: number): string => {
  const bare = JSON.stringify({ ...USER, padding: '' })
  return JSON.stringify({ ...USER, padding: 'y'.repeat(bytes - bare.length) })
}

test('64 KiB is the most a body may have, in bytes', async (t) => {
  const service = await startService(t)
  await succeed(service, 'POST', USERS, bodyOf(LIMIT))
  const over = await service.call('POST', USERS, bodyOf(LIMIT + 1))
  assert.equal(over.status, 413)
  assert.equal(typeof over.body.detail, 'string')
  // Half as many characters, as many bytes.
  const wide = await service.call(
    'POST',
    USERS,
    JSON.stringify({ ...USER, padding: '\u00e9'.repeat(LIMIT / 2) }),
  )
  assert.equal(wide.status, 413)
  await succeed(service, 'GET', ME)
})

test('a body over the limit is refused without being read, however it is announced', async (t) => {
  const { url, key, call } = await startService(t)
  const small = bodyOf(500)
  const chunked = head('POST', USERS, key, ['Transfer-Encoding: chunked'])
  const cases: Record<string, readonly [parts: string[], status: number]> = {
    // Nothing follows: an answer can only come from the head.
    declared: [[head('POST', USERS, key, [`Content-Length: ${LIMIT + 1}`])], 413],
    'declared beyond every number': [[head('POST', USERS, key, ['Content-Length: 9007199254740993'])], 413],
    'expecting leave': [[head('POST', USERS, key, ['Content-Length: 100000', 'Expect: 100-continue'])], 413],
    // Never ended: an answer can only come from the bytes seen so far.
    'chunked without an end': [[chunked, chunk(PADDING), chunk('y')], 413],
    'chunked in many pieces': [[chunked, ...Array.from({ length: 70 }, () => chunk('y'.repeat(1000)))], 413],
    'chunked within the limit': [
      [chunked, chunk(small.slice(0, 100)), chunk(small.slice(100)), LAST_CHUNK],
      200,
    ],
    // What is beyond the length declared is not part of the body: the call is answered for what it did.
    'longer than declared': [
      [`${head('POST', USERS, key, [`Content-Length: ${small.length}`])}${small}${PADDING}y`],
      200,
    ],
    'declared twice': [[head('POST', USERS, key, ['Content-Length: 2', 'Content-Length: 70000']), '{}'], 400],
    'declared and chunked': [
      [
        head('POST', USERS, key, ['Content-Length: 2', 'Transfer-Encoding: chunked']),
        chunk(PADDING),
        chunk('y'),
      ],
      400,
    ],
    'declared as no number': [[head('POST', USERS, key, ['Content-Length: 0x20']), '{}'], 400],
  }
  for (const [name, [parts, status]] of Object.entries(cases)) {
    const answer = await exchange(url, parts)
    assert.equal(answer.status, status, `${name}: ${answer.body}`)
    if (status !== 413) continue
    assert.equal(typeof JSON.parse(answer.body).detail, 'string', name)
    assert.notEqual(answer.headers.get('x-request-id'), undefined, name)
    assert.equal(answer.headers.get('cache-control'), 'no-store', name)
  }
  assert.equal((await call('GET', ME)).status, 200)
})

test('a stranger is refused before a byte of the body is read', async (t) => {
  const { url, key } = await startService(t)
  const wrong = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`
  const answer = await exchange(url, [head('POST', USERS, wrong, ['Content-Length: 70000'])])
  assert.equal(answer.status, 401)
})

/** Writes the text and leaves at once, without a word. */
const leaveAfter = (url: string, text: string): Promise<void> =>
  new Promise((resolve) => {
    const { hostname, port } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port) }, () => {
      socket.write(text, () => socket.resetAndDestroy())
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve())
  })

test('a client that leaves at any byte of its request harms nobody', async (t) => {
  const failures: unknown[] = []
  const log: Log = {
    debug: () => {},
    info: () => {},
    warn: (line) => failures.push(line),
    error: (line) => failures.push(line),
  }
  const service = await startService(t, { log })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  const body = JSON.stringify(fill('o1', '10.00'))
  const whole = head('POST', confirmPath(id), service.key, [`Content-Length: ${body.length}`]) + body
  const cuts = Array.from({ length: 40 }, (_, i) => Math.ceil((whole.length * (i + 1)) / 40))
  await Promise.all(cuts.map((at) => leaveAfter(service.url, whole.slice(0, at))))
  // Whether the whole one was still taken or not, the partner's retry brings it to the same end.
  const answer = await succeed(service, 'POST', confirmPath(id), body)
  assert.equal(answer.status, 'filled')
  assert.deepEqual(failures, [])
  await assertSound(service)
})

test("a body that never comes to its end is the client's doing, not a failure of the service", async (t) => {
  const logged = Promise.withResolvers<{ level: string; line: object }>()
  const at = (level: string) => (line: object) => logged.resolve({ level, line })
  const { url, key } = await startService(t, {
    log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
  })
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port) })
  socket.on('error', () => {})
  socket.write(head('POST', USERS, key, ['Content-Length: 1000', 'Expect: 100-continue']))
  // The answer to "may I send it" says that the service is now waiting for the body.
  await new Promise((resolve) => socket.once('data', resolve))
  socket.write('{"partner_user_id":', () => socket.resetAndDestroy())
  const { level, line } = await logged.promise
  assert.equal(level, 'info')
  assert.equal('status' in line && line.status, 400)
})

test('requests sent ahead on one connection are answered in their order', async (t) => {
  const { url, key } = await startService(t)
  const ahead = head('GET', ME, key, ['X-Request-Id: first']) + head('GET', ME, key, ['X-Request-Id: second'])
  const answer = await exchange(url, [ahead])
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('x-request-id'), 'first')
})
