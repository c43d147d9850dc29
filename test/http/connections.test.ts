// Connections: the listener, their limits, their bytes, and requests that never become a call.

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import { type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { connectionLimitsOf } from '../../src/cli/service/serve.ts'
import { listenOn } from '../../src/http/listen.ts'
import { networkOf } from '../../src/http/request.ts'
import { makeServer } from '../../src/http/tls.ts'
import { makeCertificate } from '../support/certificate.ts'
import { fill, recordingLog, startService, USER } from '../support/service.ts'
import {
  type Conversation,
  chunk,
  converse,
  exchange,
  head,
  LAST_CHUNK,
  LOCAL,
  type RawAnswer,
  statuses,
} from './raw.ts'
import { assertSound, confirmPath, sendFirst, succeed, USERS, userPath } from './steps.ts'

const ME = '/partner/v1/me'
/** The head of a post to the users. */
const post = (key: string, ...lines: string[]): string => head('POST', USERS, key, lines)

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
  assert.deepEqual([over.status, typeof over.body.detail], [413, 'string'])
  // Half as many characters, as many bytes.
  const wide = { ...USER, padding: '\u00e9'.repeat(LIMIT / 2) }
  assert.equal((await service.call('POST', USERS, wide)).status, 413)
  await succeed(service, 'GET', ME)
})

test('a body over the limit is refused without being read, however it is announced', async (t) => {
  const { url, key, call } = await startService(t)
  const small = bodyOf(500)
  const chunked = post(key, 'Transfer-Encoding: chunked')
  const cases: Record<string, readonly [parts: string[], status: number]> = {
    // Nothing follows: an answer can only come from the head.
    declared: [[post(key, `Content-Length: ${LIMIT + 1}`)], 413],
    'declared beyond every number': [[post(key, 'Content-Length: 9007199254740993')], 413],
    'expecting leave': [[post(key, 'Content-Length: 100000', 'Expect: 100-continue')], 413],
    // Never ended: an answer can only come from the bytes seen so far.
    'chunked without an end': [[chunked, chunk(PADDING), chunk('y')], 413],
    'chunked in many pieces': [[chunked, ...Array.from({ length: 70 }, () => chunk('y'.repeat(1000)))], 413],
    'chunked within the limit': [
      [chunked, chunk(small.slice(0, 100)), chunk(small.slice(100)), LAST_CHUNK],
      200,
    ],
    // Bytes beyond the declared length are not part of the body: the call is answered for its effect.
    'longer than declared': [[`${post(key, `Content-Length: ${small.length}`)}${small}${PADDING}y`], 200],
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

/** Writes the text and disconnects at once. */
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
  const { log, failures } = recordingLog()
  const service = await startService(t, { log })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  const body = JSON.stringify(fill('o1', '10.00'))
  const whole = head('POST', confirmPath(id), service.key, [`Content-Length: ${body.length}`]) + body
  const cuts = Array.from({ length: 40 }, (_, i) => Math.ceil((whole.length * (i + 1)) / 40))
  await Promise.all(cuts.map((at) => leaveAfter(service.url, whole.slice(0, at))))
  // Whether or not the whole request was accepted, the partner's retry has the same result.
  const answer = await succeed(service, 'POST', confirmPath(id), body)
  assert.equal(answer.status, 'filled')
  assert.deepEqual(failures(), [])
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
  socket.write(post(key, 'Content-Length: 1000', 'Expect: 100-continue'))
  // The answer "100 Continue" says that the service is now waiting for the body.
  await new Promise((resolve) => socket.once('data', resolve))
  socket.write('{"partner_user_id":', () => socket.resetAndDestroy())
  const { level, line } = await logged.promise
  assert.deepEqual([level, 'status' in line && line.status], ['info', 400])
})

// The limits on connections, in all and from one address.

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
const answering = { fetch: () => new Response('there') }

/** Opens so many connections, one after another, and counts those that are answered while all are open. */
async function countAnswered(t: TestContext, url: string, count: number): Promise<number> {
  const clients: Conversation[] = []
  for (let at = 0; at < count; at++) clients.push(await converse(url))
  t.after(() => clients.forEach(({ socket }) => void socket.destroy()))
  const answers = clients.map(async ({ socket, until }) => {
    socket.write(GET)
    await until(/there/)
  })
  return (await Promise.allSettled(answers)).filter(({ status }) => status === 'fulfilled').length
}

test('beyond the limit connections are turned away, and room is made by one that ends', async (t) => {
  const reasons: string[] = []
  const onTurnedAway = (reason: string): void => void reasons.push(reason)
  const limits = { connectionsMax: 5, connectionsPerAddressMax: 2 }
  const listener = await listenOn(answering, { ...LOCAL, onTurnedAway, ...limits })
  t.after(() => Promise.all([listener.close(), listener.end()]))
  // All from this machine, which may have a proxy: only the limit on all of them counts.
  const held = await Promise.all([1, 2, 3].map(() => converse(listener.url)))
  assert.equal(await countAnswered(t, listener.url, 4), 2)
  assert.deepEqual(reasons, ['all 5 connections are taken'])
  held[0]?.socket.destroy()
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.equal(await countAnswered(t, listener.url, 2), 1)
  for (const { socket } of held) socket.destroy()
})

test('one address has its share', async (t) => {
  const outside = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ internal, family }) => !internal && family === 'IPv4')
  const reasons: string[] = []
  const onTurnedAway = (reason: string): void => void reasons.push(reason)
  const limits = { connectionsMax: 20, connectionsPerAddressMax: 3 }
  // A machine without a network has no other address; only the exemption of its own can be tested there.
  const host = outside?.address ?? '127.0.0.1'
  const listener = await listenOn(answering, { ...LOCAL, host, onTurnedAway, ...limits })
  t.after(() => Promise.all([listener.close(), listener.end()]))
  const answered = await countAnswered(t, listener.url, 6)
  assert.deepEqual([answered, reasons], outside ? [3, [`${host} has 3 connections`]] : [6, []])
})

test('an address is counted as everyone who can have it', () => {
  assert.equal(networkOf('192.0.2.7'), '192.0.2.7')
  assert.equal(networkOf('::ffff:192.0.2.7'), '192.0.2.7')
  assert.equal(networkOf('2001:db8:1:2::1'), networkOf('2001:db8:1:2:ffff::9'))
  assert.notEqual(networkOf('2001:db8:1:2::1'), networkOf('2001:db8:1:3::1'))
  for (const own of ['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1']) assert.equal(networkOf(own), null)
})

test('by default the limits follow from that of open files', () => {
  const { connectionsMax, connectionsPerAddressMax } = connectionLimitsOf({})
  assert.ok(connectionsMax >= 16 && connectionsMax <= 10_000, `${connectionsMax}`)
  assert.equal(connectionsPerAddressMax, Math.floor(connectionsMax / 4))
  assert.equal(connectionLimitsOf({ maxConnections: 2 }).connectionsPerAddressMax, 1)
  const given = connectionLimitsOf({ maxConnections: 50, maxConnectionsPerAddress: 50 })
  assert.deepEqual(given, { connectionsMax: 50, connectionsPerAddressMax: 50 })
})

// Requests that never become a call: refused in the form of every other error, without taking another call's answer.

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
    'two lengths': [post(key, 'Content-Length: 2', 'Content-Length: 3'), 400],
    'a length and chunks': [
      `${post(key, 'Content-Length: 2', 'Transfer-Encoding: chunked')}${LAST_CHUNK}`,
      400,
    ],
    'a length that is no number': [`${post(key, 'Content-Length: 0x20')}{}`, 400],
    'an expectation nobody has': [`${post(key, 'Expect: 200-ok', 'Content-Length: 2')}{}`, 417],
    'headers too large': [head('GET', ME, key, [`X-Padding: ${'p'.repeat(40_000)}`]), 431],
    'chunks that announce too much': [
      `${post(key, 'Transfer-Encoding: chunked')}5;${'e'.repeat(40_000)}\r\nhello\r\n`,
      413,
    ],
  }
  for (const [what, [text, status]] of Object.entries(cases))
    assertRefused(await exchange(url, [text]), status, what)
  // HTTP/1.0 has no Host header.
  assert.equal((await exchange(url, [`GET ${ME} HTTP/1.0\r\n${bearer}\r\n\r\n`])).status, 200)
})

test('a request that a proxy may frame or read in another way is refused, and nothing behind it is done', async (t) => {
  const { url, key, call } = await startService(t)
  const chunked = chunk(BODY) + LAST_CHUNK
  const coded = (coding: string): string => post(key, `Transfer-Encoding: ${coding}`) + chunked
  const versioned = (version: string, ...lines: string[]): string =>
    post(key, 'Connection: keep-alive', ...lines).replace('HTTP/1.1', `HTTP/${version}`)
  const cases: Record<string, string> = {
    'a coding before chunked': coded('gzip, chunked'),
    'a coding in a header before': coded('x\r\nTransfer-Encoding: chunked'),
    'an empty coding before chunked': coded(', chunked'),
    'chunks of a client that knows none': versioned('1.0', 'Transfer-Encoding: chunked') + chunked,
    'a version with another framing': versioned('2.0', `Content-Length: ${BODY.length}`) + BODY,
    'a version without headers': versioned('0.9', `Content-Length: ${BODY.length}`) + BODY,
    'two Hosts of a later version': versioned('2.0', 'Host: other', 'Content-Length: 0'),
  }
  for (const [what, text] of Object.entries(cases)) {
    const client = await converse(url)
    const smuggled = JSON.stringify({ ...USER, partner_user_id: 'smuggled' })
    client.socket.end(text + post(key, `Content-Length: ${smuggled.length}`) + smuggled)
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
    const lines = [...Array(count).fill('a:'), `Content-Length: ${BODY.length}`, 'Content-Encoding: gzip']
    const { status } = await exchange(url, [post(key, ...lines) + BODY])
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
    const call = post(key, `Content-Length: ${BODY.length}`) + BODY
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
    client.socket.write(post(key, framing))
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
  client.socket.write(post(key, 'Content-Length: 9007199254740991'))
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
  // Under the encoding "identity" it is accepted.
  const plain = { 'content-encoding': 'identity' }
  assert.equal((await call('POST', USERS, BODY, { headers: plain })).status, 200)
  // Its body is not read: the answer comes before it.
  const large = post(key, 'Content-Encoding: br', 'Content-Length: 500', 'Expect: 100-continue')
  assert.equal((await exchange(url, [large])).status, 415)
})

// The use of listhen, and its limits: it makes the server, and leaves ports, signals and closing to us.

test('it takes no signal, no setting of a hosting platform, no other port, and its end closes its own', async (t) => {
  const counts = () => ['exit', 'SIGINT', 'SIGTERM', 'SIGHUP'].map((name) => process.listenerCount(name))
  const before = counts()
  // Variables that a hosting platform may set, and that listhen would read.
  Object.assign(process.env, { HOST: '0.0.0.0', PORT: '1' })
  t.after(() => {
    delete process.env.HOST
    delete process.env.PORT
  })
  const listener = await listenOn(answering, LOCAL)
  t.after(() => listener.close())
  assert.deepEqual(counts(), before)
  assert.match(listener.url, /^http:\/\/127\.0\.0\.1:\d+$/)
  assert.equal(await (await fetch(listener.url)).text(), 'there')
  const { port } = new URL(listener.url)
  const taken = new RegExp(`Cannot listen on port ${port} of "127.0.0.1": it is taken`)
  await assert.rejects(listenOn(answering, { ...LOCAL, port: Number(port) }), taken)
  // Nothing but the listener would keep a process alive; serve ends it after a close, too.
  listener.end()
  await assert.rejects(fetch(listener.url), /fetch failed/)
  await listener.close()
  listener.end()
})

test('a port that web clients refuse to call is bound all the same', async (t) => {
  // listhen would listen on 3000 instead.
  const listener = await listenOn(answering, { ...LOCAL, port: 10_080 })
  t.after(() => listener.close())
  assert.equal(listener.url, 'http://127.0.0.1:10080')
  const { socket } = await converse(listener.url)
  socket.destroy()
})

test('a certificate with remarks before it is taken, text that is not a certificate is not read as a file name', async () => {
  const { cert, key } = makeCertificate()
  const { cert: shown } = await makeServer(() => {}, { cert: `subject=acme\n${cert}`, key: `remark\n${key}` })
  assert.equal(shown, cert)
  const refusal = makeServer(() => {}, { cert: 'package.json', key })
  await assert.rejects(refusal, /must be PEM texts/)
})

test('a certificate made for a first try names the host and lasts a week', async () => {
  const selfSignedFor = ['localhost', '127.0.0.1', '192.0.2.7']
  const { server, cert } = await makeServer(() => {}, { selfSignedFor })
  assert.ok('setSecureContext' in server)
  const { subjectAltName, validFromDate, validToDate, ca } = new X509Certificate(cert ?? '')
  assert.equal(subjectAltName, 'DNS:localhost, IP Address:127.0.0.1, IP Address:192.0.2.7')
  assert.equal(Math.round((validToDate.valueOf() - validFromDate.valueOf()) / 86_400_000), 7)
  assert.equal(ca, false)
})

// Errors on a connection that nobody catches would end the process.

/** An error nobody catches ends a process: here it is caught, and fails the test. */
function watchProcess(t: TestContext): unknown[] {
  const escaped: unknown[] = []
  const keep = (error: unknown): void => void escaped.push(error)
  process.on('uncaughtException', keep).on('unhandledRejection', keep)
  t.after(() => process.off('uncaughtException', keep).off('unhandledRejection', keep))
  return escaped
}

test('a client that asks for a tunnel behind a call and is gone before the answer harms nobody', async (t) => {
  const escaped = watchProcess(t)
  const { url, key, call } = await startService(t)
  const one = post(key, `Content-Length: ${BODY.length}`) + BODY
  const text = one.repeat(20) + head('CONNECT', 'example.org:443', key)
  for (let round = 0; round < 20; round++)
    await Promise.all([1, 2, 3, 4].map(() => leaveAfter(url, `${text}x`)))
  await new Promise((resolve) => setTimeout(resolve, 100))
  assert.deepEqual(escaped, [])
  assert.equal((await call('GET', ME)).status, 200)
})

test('an answer that fails outside the routes ends its own connection only', async (t) => {
  const escaped = watchProcess(t)
  let calls = 0
  const broken = {
    fetch: () => {
      calls += 1
      if (calls === 1) throw new Error('before it began')
      return Promise.reject(new Error('on its way'))
    },
  }
  const listener = await listenOn(broken, LOCAL)
  t.after(() => listener.close())
  for (const _ of [1, 2]) await assert.rejects(fetch(listener.url))
  assert.equal(calls, 2)
  assert.deepEqual(escaped, [])
})
