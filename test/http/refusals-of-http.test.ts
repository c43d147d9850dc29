// What never becomes a call: it is refused in the form of every other error, and takes nobody else's answer.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { startService, USER } from '../support/service.ts'
import { converse, statuses } from './conversation.ts'
import { exchange, head, type RawAnswer } from './raw.ts'
import { USERS, userPath } from './steps.ts'

const ME = '/partner/v1/me'
const BODY = JSON.stringify(USER)

function assertRefused(answer: RawAnswer, status: number, what: string): void {
  assert.equal(answer.status, status, what)
  assert.equal(answer.headers.get('content-type'), 'application/json', what)
  assert.equal(answer.headers.get('cache-control'), 'no-store', what)
  assert.match(answer.headers.get('x-request-id') ?? '', /^[A-Za-z0-9._-]{1,128}$/, what)
  const body = JSON.parse(answer.body)
  assert.deepEqual(Object.keys(body), ['detail'], what)
  assert.match(body.detail, /\w/, what)
}

test('whatever is refused before it is a call has the body and the headers of every error', async (t) => {
  const { url, key } = await startService(t)
  const bearer = `Authorization: Bearer ${key}`
  const cases: Record<string, [text: string, status: number]> = {
    'not HTTP': ['hello\r\n\r\n', 400],
    'a version that does not exist': ['GET / HTTP/9.9\r\n\r\n', 400],
    'no Host': [`GET ${ME} HTTP/1.1\r\n${bearer}\r\n\r\n`, 400],
    'two Hosts': [`GET ${ME} HTTP/1.1\r\nHost: a\r\nHost: b\r\n${bearer}\r\n\r\n`, 400],
    'no Host at an unknown path': ['GET /metrics HTTP/1.1\r\n\r\n', 400],
    'two lengths': [head('POST', USERS, key, ['Content-Length: 2', 'Content-Length: 3']), 400],
    'a length and chunks': [
      `${head('POST', USERS, key, ['Content-Length: 2', 'Transfer-Encoding: chunked'])}0\r\n\r\n`,
      400,
    ],
    'an expectation nobody has': [
      `${head('POST', USERS, key, ['Expect: 200-ok', 'Content-Length: 2'])}{}`,
      417,
    ],
    'headers too large': [head('GET', ME, key, [`X-Padding: ${'p'.repeat(40_000)}`]), 431],
    'chunks that announce too much': [
      `${head('POST', USERS, key, ['Transfer-Encoding: chunked'])}5;${'e'.repeat(40_000)}\r\nhello\r\n`,
      413,
    ],
  }
  for (const [what, [text, status]] of Object.entries(cases))
    assertRefused(await exchange(url, [text]), status, what)
  // HTTP/1.0 knows no Host.
  const old = await exchange(url, [`GET ${ME} HTTP/1.0\r\n${bearer}\r\n\r\n`])
  assert.equal(old.status, 200)
})

test('a request that a proxy may frame or read in another way is refused, and nothing behind it is done', async (t) => {
  const { url, key, call } = await startService(t)
  const chunked = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`
  const coded = (coding: string): string =>
    head('POST', USERS, key, [`Transfer-Encoding: ${coding}`]) + chunked
  const versioned = (version: string, lines: readonly string[] = []): string =>
    head('POST', USERS, key, ['Connection: keep-alive', ...lines]).replace('HTTP/1.1', `HTTP/${version}`)
  const cases: Record<string, string> = {
    'a coding before chunked': coded('gzip, chunked'),
    'a coding in a header before': coded('x\r\nTransfer-Encoding: chunked'),
    'an empty coding before chunked': coded(', chunked'),
    'chunks of a client that knows none': versioned('1.0', ['Transfer-Encoding: chunked']) + chunked,
    'a version with another framing': versioned('2.0', [`Content-Length: ${BODY.length}`]) + BODY,
    'a version without headers': versioned('0.9', [`Content-Length: ${BODY.length}`]) + BODY,
    'two Hosts of a later version': versioned('2.0', ['Host: other', 'Content-Length: 0']),
  }
  for (const [what, text] of Object.entries(cases)) {
    const client = await converse(url)
    const smuggled = JSON.stringify({ ...USER, partner_user_id: 'smuggled' })
    client.socket.end(text + head('POST', USERS, key, [`Content-Length: ${smuggled.length}`]) + smuggled)
    await client.ended
    client.socket.destroy()
    assert.deepEqual(statuses(client.received()), [400], what)
  }
  assert.equal((await call('PATCH', userPath('smuggled'), { status: 'linked' })).status, 404)
})

test('of as many headers as there may be the last one counts', async (t) => {
  const { url, key } = await startService(t)
  let most = 0
  for (let count = 100; count <= 4_000; count += 100) {
    const crowd = Array.from({ length: count }, () => 'a:')
    const lines = [...crowd, `Content-Length: ${BODY.length}`, 'Content-Encoding: gzip']
    const { status } = await exchange(url, [head('POST', USERS, key, lines) + BODY])
    if (status === 431) break
    assert.equal(status, 415, `${count} headers`)
    most = count
  }
  assert.ok(most >= 100 && most < 4_000, `${most}`)
})

for (const rubbish of ['rubbish\r\n\r\n', 'CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n'])
  test(`what is not a call is refused after the calls before it are answered: ${rubbish.slice(0, 7)}`, async (t) => {
    const { url, key } = await startService(t)
    const client = await converse(url)
    const call = head('POST', USERS, key, [`Content-Length: ${BODY.length}`]) + BODY
    client.socket.write(call + rubbish + call)
    await client.ended
    client.socket.destroy()
    assert.deepEqual(statuses(client.received()), [200, 400])
  })

test('a body is asked for only when it is wanted', async (t) => {
  const { url, key } = await startService(t)
  const asking = (bearer: string, length: number, path = USERS): string =>
    head('POST', path, bearer, [`Content-Length: ${length}`, 'Expect: 100-continue'])
  const cases: [what: string, text: string, answers: number[]][] = [
    ['no key of ours', asking('sse_test_nothing', BODY.length), [401]],
    ['too long', asking(key, 70_000), [413]],
    ['no route', asking(key, BODY.length, '/nowhere'), [404]],
    ['the wrong method', asking(key, BODY.length, ME), [405]],
  ]
  for (const [what, text, answers] of cases) {
    const client = await converse(url)
    client.socket.write(text)
    await client.until(/"detail":.*\}/)
    assert.deepEqual(statuses(client.received()), answers, what)
    client.socket.destroy()
  }
  const client = await converse(url)
  client.socket.write(asking(key, BODY.length))
  await client.until(/100 Continue\r\n\r\n/)
  client.socket.write(BODY)
  await client.until(/"partner_user_id"/)
  assert.deepEqual(statuses(client.received()), [100, 200])
  client.socket.destroy()
})

const MIB = 1024 * 1024

for (const framing of ['Content-Length: 900000', 'Transfer-Encoding: chunked'])
  test(`a client that sends all of a large body before it reads is told 413 (${framing})`, async (t) => {
    const { url, key } = await startService(t)
    const client = await converse(url)
    client.socket.pause()
    const text = 'y'.repeat(900_000)
    const body = framing.startsWith('T') ? `dbba0\r\n${text}\r\n0\r\n\r\n` : text
    client.socket.write(head('POST', USERS, key, [framing]))
    for (let at = 0; at < body.length; at += 50_000) {
      client.socket.write(body.slice(at, at + 50_000))
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    client.socket.resume()
    await client.until(/"detail":.*\}/)
    assert.deepEqual(statuses(client.received()), [413])
    assert.equal(client.socket.errored, null)
    client.socket.destroy()
  })

test('a client that goes on sending forever is cut off', async (t) => {
  const { url, key } = await startService(t)
  const client = await converse(url)
  client.socket.write(head('POST', USERS, key, ['Content-Length: 9007199254740991']))
  let sent = 0
  const closed = new Promise((resolve) => client.socket.once('close', resolve))
  const send = setInterval(() => {
    if (client.socket.writable && client.socket.writableLength < MIB) {
      client.socket.write('y'.repeat(100_000))
      sent += 100_000
    }
  }, 5)
  t.after(() => clearInterval(send))
  await closed
  assert.deepEqual(statuses(client.received()), [413])
  assert.ok(sent < 64 * MIB, `${sent}`)
})

test('a compressed body is refused, and told why', async (t) => {
  const { call, url, key } = await startService(t)
  const zipped = gzipSync(BODY)
  const headers = { 'content-encoding': 'gzip' }
  const answer = await call('POST', USERS, zipped, { headers })
  assert.equal(answer.status, 415)
  assert.match(answer.body.detail, /uncompressed/)
  assert.equal((await call('POST', USERS, zipped, { headers, key: null })).status, 401)
  // Under a name that says it is as it is, it is taken.
  const plain = { 'content-encoding': 'identity' }
  assert.equal((await call('POST', USERS, BODY, { headers: plain })).status, 200)
  // Nothing is read of it: the answer comes before the body.
  const lines = ['Content-Encoding: br', 'Content-Length: 500', 'Expect: 100-continue']
  assert.equal((await exchange(url, [head('POST', USERS, key, lines)])).status, 415)
})
