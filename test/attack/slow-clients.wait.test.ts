// Clients that hold a connection and stall: they send nothing, send byte by byte, or read nothing of their answer. They
// cost little, delay nobody, and are disconnected in time.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { createApp } from '../../src/http/app.ts'
import { CALLS_MAX, listenOn } from '../../src/http/listen.ts'
import { silentLog } from '../../src/log.ts'
import { machine } from '../../src/machine.ts'
import {
  type Conversation,
  chunk,
  converse,
  exchange,
  head,
  LAST_CHUNK,
  LOCAL,
  statuses,
} from '../http/raw.ts'
import { assertSound, succeed, USERS } from '../http/steps.ts'
import { makeCertificate } from '../support/certificate.ts'
import { temporaryFolder } from '../support/database.ts'
import { readExposition } from '../support/exposition.ts'
import { PROGRAM, type Program, type Started, startServe, WITH_OPS } from '../support/process.ts'
import { me, notDelivered, startService, USER, withKey } from '../support/service.ts'

// Silent connections against a service with 256 descriptors, while its scheduler runs beside them.

const ME = '/partner/v1/me'
const DESCRIPTORS = 256
const SILENT = 300
/** The time limit on an incomplete request, the interval of the check, the grace, and a margin. */
const FREED_MS = 10_000 + 2_000 + 2_000 + 3_000

const LIMITED: Program = ['/bin/sh', '-c', `ulimit -n ${DESCRIPTORS} && exec "$@"`, 'sh', ...PROGRAM]
const TICKING = ['--tick-every', '1s', '--price-feed', 'static:60000']

async function openSilent(t: TestContext, url: string, count: number): Promise<Socket[]> {
  const { hostname, port } = new URL(url)
  const sockets = Array.from({ length: count }, () => connect({ host: hostname, port: Number(port) }))
  t.after(() => sockets.forEach((socket) => void socket.destroy()))
  // Some are refused: that is the point of a limit.
  for (const socket of sockets) socket.on('error', () => {}).resume()
  await Promise.all(
    sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve).once('close', resolve))),
  )
  return sockets
}

/** The number of descriptors of the process; 0 where it cannot be read. */
function descriptors({ child }: Started): number {
  const folder = `/proc/${child.pid}/fd`
  return existsSync(folder) ? readdirSync(folder).length : 0
}

const passes = ({ err }: Started): number => err().split('"msg":"tick"').length - 1

/** Waits until the service answers again; the first answers may be cut off by the limit. */
async function answeredWithin(ms: number, call: () => Promise<number>): Promise<number> {
  const until = performance.now() + ms
  for (;;) {
    const status = await call().catch(() => null)
    if (status !== null) return status
    if (performance.now() > until) throw new Error(`no answer for ${ms} ms`)
    await wait(250)
  }
}

suite('silent connections', { concurrency: 2 }, () => {
  test('plain: they are answered 408, let go, and leave room for the database meanwhile', async (t) => {
    const { cwd, key } = await withKey(t)
    const served = await startServe(t, TICKING, { cwd, program: LIMITED })
    const before = descriptors(served)
    const sockets = await openSilent(t, served.url, SILENT)
    let first = ''
    sockets[0]?.on('data', (text) => {
      first += text
    })
    const passesBefore = passes(served)
    // All of them are still open on this side.
    assert.equal(await answeredWithin(FREED_MS, async () => (await me(served.url, key)).status), 200)
    assert.ok(passes(served) > passesBefore + 5, 'the scheduler ran all the time')
    assert.match(first, /^HTTP\/1\.1 408 [\s\S]*\{"detail":"Request Timeout"\}$/)
    assert.ok(served.err().includes('connections are turned away'))
    assert.ok(!served.err().includes('"level":"error"'), served.err())
    await wait(2_500)
    assert.ok(descriptors(served) <= before + 10, `${before} descriptors, then ${descriptors(served)}`)
  })

  test('TLS: the same, whether they stay or leave', async (t) => {
    const { cwd, key } = await withKey(t)
    const certificate = makeCertificate()
    writeFileSync(join(cwd, 'c.pem'), certificate.cert)
    writeFileSync(join(cwd, 'k.pem'), certificate.key)
    const argv = [...TICKING, '--tls-cert', 'c.pem', '--tls-key', 'k.pem']
    const served = await startServe(t, argv, { cwd, program: LIMITED })
    const before = descriptors(served)
    const request = head('GET', ME, key, ['Connection: close'])
    const calling = async () => (await exchange(served.url, [request])).status
    assert.equal(await calling(), 200)
    // Closed at once, and then half way through a handshake: neither may cost a descriptor.
    for (const socket of await openSilent(t, served.url, 100)) socket.end()
    for (const socket of await openSilent(t, served.url, 100)) {
      socket.write('\u0016\u0003\u0001')
      socket.end()
    }
    await wait(2_000)
    assert.ok(descriptors(served) <= before + 10, `${before} descriptors, then ${descriptors(served)}`)
    const passesBefore = passes(served)
    await openSilent(t, served.url, SILENT)
    assert.equal(await answeredWithin(FREED_MS, calling), 200)
    assert.ok(passes(served) > passesBefore + 5, 'the scheduler ran all the time')
    assert.ok(!served.err().includes('"level":"error"'), served.err())
    await wait(1_000)
    assert.ok(descriptors(served) <= before + 10, `${before} descriptors, then ${descriptors(served)}`)
  })
})

// Clients that send a byte now and then, of a head or of a body, and bodies in the smallest pieces: they are
// disconnected in time, and delay nobody.

const EVERY_MS = 500
/** The interval of the check, the grace that follows, and a margin for a slow machine. */
const LATE_MS = 2_000 + 2_000 + 4_000
const HEAD_MS = 10_000
const WHOLE_MS = 30_000
/** The longest that another caller may wait meanwhile, beyond the time of a bare server in the same process. */
const OTHERS_MS = 3_000

const dribbling = new Set<Conversation['socket']>()

/** Begins with `start` and then sends `more` again and again; resolves with how long the service allowed it. */
async function dribble(t: TestContext, url: string, start: string, more: string): Promise<Dribbled> {
  const client = await converse(url)
  dribbling.add(client.socket)
  client.socket.write(start)
  const sending = setInterval(() => client.socket.writable && client.socket.write(more), EVERY_MS)
  t.after(() => {
    clearInterval(sending)
    client.socket.destroy()
  })
  const from = performance.now()
  await client.ended
  return { client, tookMs: performance.now() - from }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now()
  await work()
  return performance.now() - from
}

type Dribbled = { client: Conversation; tookMs: number }

test('a client that sends its head or its body by the byte is told 408 and let go', async (t) => {
  const service = await startService(t)
  const { url, key } = service
  const chunked = head('POST', USERS, key, ['Transfer-Encoding: chunked'])
  const slow = {
    'a head': { work: dribble(t, url, 'GET /partner/v1/me HTTP/1.1\r\nX: ', 'x'), limitMs: HEAD_MS },
    'a body of a stated length': {
      work: dribble(t, url, head('POST', USERS, key, ['Content-Length: 1000']), ' '),
      limitMs: WHOLE_MS,
    },
    'a body in chunks': { work: dribble(t, url, chunked, chunk(' ')), limitMs: WHOLE_MS },
    'the extension of a chunk': { work: dribble(t, url, `${chunked}1;`, 'x'), limitMs: WHOLE_MS },
    'the trailer of a body': { work: dribble(t, url, `${chunked}0\r\nX: `, 'x'), limitMs: WHOLE_MS },
  }
  let areOver = false
  const all = Promise.all(Object.values(slow).map(({ work }) => work)).finally(() => {
    areOver = true
  })
  const bare = createServer((_, response) => response.end()).listen(0, '127.0.0.1')
  await once(bare, 'listening')
  t.after(() => bare.close())
  const bareUrl = `http://127.0.0.1:${(bare.address() as AddressInfo).port}`
  while (!areOver) {
    const [ours, floor] = await Promise.all([
      timed(() => succeed(service, 'GET', ME)),
      timed(() => fetch(bareUrl, { headers: { connection: 'close' } })),
    ])
    const tookMs = ours - floor
    // The service waits for its connections before it stops: a failing test closes them first.
    if (tookMs >= OTHERS_MS) for (const socket of dribbling) socket.destroy()
    assert.ok(tookMs < OTHERS_MS, `somebody else is answered at once, not ${tookMs} ms after a bare server`)
    await Promise.race([all, wait(EVERY_MS)])
  }
  for (const [what, { work, limitMs }] of Object.entries(slow)) {
    const { client, tookMs } = await work
    assert.deepEqual(statuses(client.received()), [408], what)
    assert.ok(tookMs >= limitMs && tookMs <= limitMs + LATE_MS, `${what}: ${tookMs} ms`)
  }
  await assertSound(service)
})

test('a body of a byte for each chunk is read, and one that never ends is refused at its limit', async (t) => {
  const service = await startService(t)
  const { url, key } = service
  const chunked = head('POST', USERS, key, ['Transfer-Encoding: chunked'])
  const text = JSON.stringify({ ...USER, padding: 'y'.repeat(50_000) })
  const byTheByte = [...text].map(chunk).join('')
  const from = performance.now()
  assert.equal((await exchange(url, [chunked, byTheByte, LAST_CHUNK])).status, 200)
  assert.equal((await exchange(url, [chunked, chunk(' ').repeat(70_000)])).status, 413)
  const trailers = `${LAST_CHUNK.slice(0, -2)}${'X: x\r\n'.repeat(20_000)}\r\n`
  assert.equal((await exchange(url, [chunked, chunk(JSON.stringify(USER)), trailers])).status, 431)
  t.diagnostic(`${Math.round(performance.now() - from)} ms`)
  await succeed(service, 'GET', ME)
})

// Clients that send far ahead and read nothing: they cost little memory, delay nobody, and are disconnected.

const DESCRIPTION = 'GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n'
const ATTACKERS = 10
const MIB = 1024 * 1024

type Use = { memoryMib: number; cpuSeconds: number }

/** Memory and processor time, from the service's own metrics. */
async function useOf(opsUrl: string): Promise<Use> {
  const answer = await fetch(`${opsUrl}/metrics`, { headers: { connection: 'close' } })
  const { value } = readExposition(await answer.text())
  return {
    memoryMib: Math.round(value('process_resident_memory_bytes') / MIB),
    cpuSeconds: value('process_cpu_seconds_total'),
  }
}

for (const [what, calls] of [
  ['61 KB at once', 1_500],
  ['as much as is allowed, again and again', 200],
] as const)
  test(`ten clients that send ${what} and never read`, async (t) => {
    const { url, opsUrl } = await startServe(t, WITH_OPS, { cwd: temporaryFolder(t) })
    await (await fetch(`${url}/openapi.json`)).text()
    const before = await useOf(opsUrl)
    const { hostname, port } = new URL(url)
    const sockets = Array.from({ length: ATTACKERS }, () => connect({ host: hostname, port: Number(port) }))
    const text = DESCRIPTION.repeat(calls)
    const send = (): void => {
      for (const socket of sockets) if (socket.writableLength < MIB) socket.write(text)
    }
    for (const socket of sockets) socket.on('error', () => {}).pause()
    send()
    const again = setInterval(send, 100)
    t.after(() => {
      clearInterval(again)
      for (const socket of sockets) socket.destroy()
    })
    let memoryMib = 0
    let cpuSeconds = 0
    // Elapsed time depends on the machine too; the processor time of the service does not.
    for (let round = 0; round < 20; round++) {
      await wait(100)
      const use = await useOf(opsUrl)
      memoryMib = Math.max(memoryMib, use.memoryMib - before.memoryMib)
      cpuSeconds = use.cpuSeconds - before.cpuSeconds
    }
    t.diagnostic(`${memoryMib} MiB more, ${cpuSeconds.toFixed(1)} s of work`)
    assert.ok(memoryMib < 100, `${memoryMib} MiB`)
    assert.ok(cpuSeconds < 2, `${cpuSeconds} s`)
  })

test('of the calls sent ahead on one connection so many are answered at a time, and all in their order', async (t) => {
  const { store, key } = await startService(t)
  const guard = { checkUrl: async () => {} }
  const app = createApp({ store, machine, guard, send: notDelivered, log: silentLog, rateLimit: null })
  let running = 0
  let most = 0
  const counted = {
    fetch: async (request: Request) => {
      running += 1
      most = Math.max(most, running)
      await wait(1)
      const answer = await app.fetch(request)
      running -= 1
      return answer
    },
  }
  const listener = await listenOn(counted, LOCAL)
  t.after(() => listener.close())
  const client = await converse(listener.url)
  const ids = Array.from({ length: 260 }, (_, at) => `call-${at}`)
  const body = JSON.stringify(USER)
  const calls = ids.map((id, at) => {
    const named = `X-Request-Id: ${id}`
    if (at < 200 || at >= 240) return head('GET', '/partner/v1/me', key, [named])
    return head('POST', '/partner/v1/users', key, [named, `Content-Length: ${body.length}`]) + body
  })
  // The service reads on after some requests had to wait, whether it read their bodies or Node dropped them.
  for (const [from, to] of [
    [0, 200],
    [200, 240],
    [240, 260],
  ] as const) {
    client.socket.write(calls.slice(from, to).join(''))
    await client.until(new RegExp(`${ids[to - 1]}[\\s\\S]*\\}`))
  }
  assert.deepEqual(statuses(client.received()), Array(260).fill(200))
  assert.deepEqual(
    [...client.received().matchAll(/^x-request-id: (.*)\r$/gim)].map(([, id]) => id),
    ids,
  )
  assert.equal(most, CALLS_MAX)
  client.socket.destroy()
})

for (const [what, start, more] of [
  ['empty lines', '\r\n', '\r\n'],
  ['a head by the byte', '\r\nGET / HTTP/1.1\r\nX: ', 'x'],
  ['what is not HTTP', '\r\nNOT HTTP\r\n\r\n', 'x'],
  ['bytes after its last call', 'Connection: close\r\n\r\n', 'x'],
] as const)
  test(`a client that takes nothing of its answers is ended although it goes on sending ${what}`, async (t) => {
    const url = await answerAtLength(t, 500)
    const client = await converse(url)
    client.socket.pause().write(`GET / HTTP/1.1\r\nHost: x\r\n${start}`)
    assert.ok(await isCutOff(t, client, more), 'it was cut off')
  })

/** More than the system's buffer for a connection. */
const ANSWER_BYTES = 16 * MIB

/** A server of such answers. */
async function answerAtLength(t: TestContext, stallMs: number): Promise<string> {
  const listener = await listenOn(
    { fetch: () => new Response('a'.repeat(ANSWER_BYTES)) },
    { ...LOCAL, stallMs },
  )
  t.after(() => Promise.all([listener.close(), listener.end()]))
  return listener.url
}

/** Sends `more` again and again: a client that reads nothing learns only from a failed write that it was cut off. */
async function isCutOff(t: TestContext, { socket }: Conversation, more: string) {
  const again = setInterval(() => socket.write(more), 100)
  t.after(() => {
    clearInterval(again)
    socket.destroy()
  })
  const failed = new Promise<boolean>((resolve) => socket.once('error', () => resolve(true)))
  return Promise.race([failed, wait(5_000, false)])
}

test('a client that takes nothing of its answers is ended; one that takes them slowly is not', async (t) => {
  const stallMs = 4_000
  const url = await answerAtLength(t, stallMs)
  const [stuck, slow, tunnel] = await Promise.all([1, 2, 3].map(() => converse(url)))
  assert.ok(stuck && slow && tunnel)
  const clients = [stuck, slow, tunnel]
  for (const { socket } of clients) socket.pause().write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  // From here on Node no longer manages this connection.
  tunnel.socket.write('CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n')
  // This client takes a chunk now and then, for several times as long as the other one is given.
  slow.socket.on('data', () => slow.socket.pause())
  const take = setInterval(() => slow.socket.resume(), stallMs / 10)
  t.after(() => clearInterval(take))
  await wait(3 * stallMs)
  assert.equal(slow.socket.closed, false)
  assert.ok(slow.received().length > 0)
  for (const { socket, ended, received } of [stuck, tunnel]) {
    socket.resume()
    await ended
    assert.ok(received().length < ANSWER_BYTES, 'it was cut off')
  }
  for (const { socket } of clients) socket.destroy()
})
