// Forms of an answer that RFC 9110 and 9112 let a server send and that the call has to decide on, and invalid ones,
// byte for byte, to each of the callers: a delivery, a price feed and a call to a monitor.

import assert from 'node:assert/strict'
import { createServer, type Server, type Socket } from 'node:net'
import { test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { createPing } from '../../src/cli/service/ping.ts'
import { read } from '../price/ticker.ts'
import { type Authority, makeAuthority, makeCertificate } from '../support/certificate.ts'
import { listen } from '../support/service.ts'
import { deliverer, deliveryTo } from './stage.ts'

const BODY = '{"price":"64000"}'
const LENGTH = `content-length: ${BODY.length}`
const OK = `HTTP/1.1 200 OK\r\n${LENGTH}\r\n\r\n${BODY}`
const CHUNKED = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'

/** Answers with a whole body: each caller accepts them. */
const WHOLE: Record<string, string> = {
  'with a length': OK,
  'after 100 Continue, which IIS sends unasked': `HTTP/1.1 100 Continue\r\n\r\n${OK}`,
  'after ten interim answers': `${'HTTP/1.1 100 Continue\r\n\r\n'.repeat(10)}${OK}`,
  'without a reason': `HTTP/1.1 200 \r\n${LENGTH}\r\n\r\n${BODY}`,
  'of HTTP/1.0': `HTTP/1.0 200 OK\r\n\r\n${BODY}`,
  'that ends with the connection': `HTTP/1.1 200 OK\r\n\r\n${BODY}`,
  'with a folded value': `HTTP/1.1 200 OK\r\nx-a: b\r\n  c\r\n\td\r\n${LENGTH}\r\n\r\n${BODY}`,
  'with line feeds alone': `HTTP/1.1 200 OK\n${LENGTH}\n\n${BODY}`,
  'in chunks': `${CHUNKED}5\r\n${BODY.slice(0, 5)}\r\n0C\r\n${BODY.slice(5)}\r\n0\r\n\r\n`,
  'in chunks with trailers': `${CHUNKED.replace('chunked', 'Chunked\r\ntrailer: x-a')}11\r\n${BODY}\r\n0\r\nx-a: b\r\n\r\n`,
  'in chunks, and with a length too': `HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n11\r\n${BODY}\r\n0\r\n\r\n`,
  'that offers another protocol': `HTTP/1.1 200 OK\r\nupgrade: h2, h2c\r\nconnection: Upgrade\r\n${LENGTH}\r\n\r\n${BODY}`,
  'and bytes after it': `${OK}HTTP/1.1 500 No\r\n\r\n`,
}

/** Successful answers without a whole body: delivered, but no price. With the message of the feed. */
const WITHOUT_BODY: Record<string, [string, RegExp]> = {
  'a 204': ['HTTP/1.1 204 No Content\r\n\r\n', /: HTTP 204$/],
  'a 200 of no bytes': ['HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n', /its answer is not JSON$/],
  'a length, and no body': [`HTTP/1.1 200 OK\r\n${LENGTH}\r\n\r\n`, /its answer was cut off$/],
  'half a body': [OK.slice(0, -5), /its answer was cut off$/],
  'a chunk that is cut': [`${CHUNKED}11\r\n{"pr`, /its answer was cut off$/],
  'a body of an unknown coding': [
    'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\n\u001f\u008b\r\n0\r\n\r\n',
    /its answer is not JSON$/,
  ],
  'a body too large': [
    `HTTP/1.1 200 OK\r\n\r\n${' '.repeat(300_000)}`,
    /its answer is larger than 262144 bytes$/,
  ],
}

/** Answers that are a failure for each, and why. */
const FAILURES: Record<string, [string, RegExp]> = {
  'an error after 100 Continue': [
    `HTTP/1.1 100 Continue\r\n\r\n${OK.replace('200 OK', '503 Busy')}`,
    /HTTP 503$/,
  ],
  'a redirect': ['HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n', /HTTP 302$/],
  'a status nobody knows': ['HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n', /HTTP 999$/],
  'another protocol': [
    `HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n${OK}`,
    /HTTP 101$/,
  ],
  'another protocol, not named': [`HTTP/1.1 101 Switching Protocols\r\n\r\n${OK}`, /HTTP 101$/],
  'interim answers alone': [
    'HTTP/1.1 100 Continue\r\n\r\n'.repeat(3),
    /the connection was closed before an answer/,
  ],
  'interim answers without end': [
    `${'HTTP/1.1 100 Continue\r\n\r\n'.repeat(1000)}${OK}`,
    /more than 100 interim answers$/,
  ],
  'half a head': ['HTTP/1.1 200 OK\r\nx-a: b\r\n', /the connection was closed before an answer/],
  nothing: ['', /the connection was closed before an answer/],
  'a greeting of something else': ['220 mail.example ESMTP\r\n', /its answer is not HTTP \(HPE_\w+\)$/],
  'a head too large': [
    `HTTP/1.1 200 OK\r\nx-a: ${'b'.repeat(20_000)}\r\n\r\n`,
    /the headers of its answer are larger than 16384 bytes/,
  ],
}

/** Words of Node, its parser and OpenSSL. */
const FOREIGN =
  /socket hang up|Parse Error|:error:|routines|undici|self.signed certificate|altnames|read E|connect E/i

const ANSWERS = [
  ...Object.values(WHOLE),
  ...[...Object.values(WITHOUT_BODY), ...Object.values(FAILURES)].map(([answer]) => answer),
]

/** Sends the answer whose number is the requested path, byte by byte if it begins with a 0. */
function send(socket: Socket): void {
  socket.setNoDelay().once('data', async (asked) => {
    const [, bytewise, number] = /^\w+ \/(0?)(\d+)/.exec(asked.toString()) ?? []
    const bytes = Buffer.from(ANSWERS[Number(number)] ?? '', 'latin1')
    if (bytewise) for (const byte of bytes) await new Promise((sent) => socket.write(Buffer.of(byte), sent))
    else socket.write(bytes)
    socket.end()
  })
}

/** The outcome for each caller: null, or the reason of the failure. */
const TAKEN = { delivery: null, price: 'a price', ping: null }

test('each caller takes each form of an answer', async (t) => {
  const authority = makeAuthority(t)
  const plain = await listen(t, createServer(send))
  const secure = await listen(t, createTlsServer(authority.issue('IP:127.0.0.1'), send))

  async function callers(answer: string, bytewise = false) {
    const path = `/${bytewise ? '0' : ''}${ANSWERS.indexOf(answer)}`
    const url = `http://127.0.0.1:${plain.port}${path}`
    const { observed, warnings } = await read(`${url}#/price`)
    return {
      delivery: await delivered(secure.port, authority, path),
      price: observed ? 'a price' : warnings.join(),
      ping: await pinged(url),
    }
  }

  for (const [name, answer] of Object.entries(WHOLE))
    for (const bytewise of [false, true])
      assert.deepEqual(await callers(answer, bytewise), TAKEN, `${name}${bytewise ? ', byte by byte' : ''}`)
  for (const [name, [answer, says]] of Object.entries(WITHOUT_BODY)) {
    const { delivery, price, ping } = await callers(answer)
    assert.deepEqual([delivery, ping], [null, null], name)
    assert.match(price, says, name)
  }
  for (const [name, [answer, says]] of Object.entries(FAILURES))
    for (const said of Object.values(await callers(answer))) {
      assert.match(said ?? 'delivered', says, name)
      assert.doesNotMatch(said ?? '', FOREIGN, name)
    }
})

const delivered = async (port: number, authority: Authority, path = '/hook'): Promise<string | null> =>
  (await deliverer({ caFile: authority.caFile })(deliveryTo(`https://127.0.0.1:${port}${path}`))).reason

async function pinged(url: string): Promise<string | null> {
  const warnings: string[] = []
  await createPing(new URL(url), (message) => warnings.push(message))('a failure')
  return warnings[0] ?? null
}

test('a connection that cannot be made safely is refused in words of ours', async (t) => {
  const authority = makeAuthority(t)
  const old = { maxVersion: 'TLSv1.1', minVersion: 'TLSv1', ciphers: 'ALL:@SECLEVEL=0' } as const
  const ended = makeCertificate(Date.UTC(2021, 0, 1) as never)
  const cases: [Server, RegExp][] = [
    [createServer((socket) => socket.end('220 hello\r\n')), /^it does not answer in TLS \(\w+\)$/],
    [
      createServer((socket) => socket.destroy()),
      /^the connection was closed before an answer \(ECONNRESET\)$/,
    ],
    [createTlsServer(), /^no TLS connection could be agreed on \(\w+\)$/],
    [
      createTlsServer({ ...authority.issue('IP:127.0.0.1'), ...old }),
      /^no TLS connection could be agreed on \(\w+\)$/,
    ],
    [createTlsServer({ ...ended }), /^its certificate /],
  ]
  for (const [server, says] of cases) {
    const reason = await delivered((await listen(t, server)).port, authority)
    assert.match(reason ?? 'delivered', says)
    assert.doesNotMatch(reason ?? '', FOREIGN)
  }
})
