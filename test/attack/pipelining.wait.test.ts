// Clients that send far ahead and read nothing: they cost little memory, nobody else's time, and are ended.

import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { createApp } from '../../src/http/app.ts'
import { CALLS_MAX, listenOn } from '../../src/http/listen.ts'
import { silentLog } from '../../src/log.ts'
import { machine } from '../../src/machine.ts'
import { converse, head, statuses } from '../http/raw.ts'
import { temporaryFolder } from '../support/database.ts'
import { readExposition } from '../support/exposition.ts'
import { startServe, WITH_OPS } from '../support/process.ts'
import { notDelivered, startService, USER } from '../support/service.ts'

const DESCRIPTION = 'GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n'
const ATTACKERS = 10
const MIB = 1024 * 1024

type Use = { memoryMib: number; cpuSeconds: number }

/** What the service says of itself. */
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
    // Time on the clock is the machine's doing as well; what the service has worked for it, is not.
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
  const app = createApp({
    store,
    machine,
    guard: { checkUrl: async () => {} },
    deliver: notDelivered,
    log: silentLog,
    rateLimit: null,
  })
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
  const listener = await listenOn(counted, { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid })
  t.after(() => listener.close())
  const client = await converse(listener.url)
  const ids = Array.from({ length: 260 }, (_, at) => `call-${at}`)
  const body = JSON.stringify(USER)
  const calls = ids.map((id, at) => {
    const named = `X-Request-Id: ${id}`
    if (at < 200 || at >= 240) return head('GET', '/partner/v1/me', key, [named])
    return head('POST', '/partner/v1/users', key, [named, `Content-Length: ${body.length}`]) + body
  })
  // It is read from again after some had to wait, be their bodies read by us or dropped by Node.
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

test('a client that takes nothing of its answers is ended; one that takes them slowly is not', async (t) => {
  const stallMs = 1_500
  const options = { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid, stallMs }
  // More than the system holds for a connection.
  const answer = 'a'.repeat(16 * MIB)
  const listener = await listenOn({ fetch: () => new Response(answer) }, options)
  t.after(() => Promise.all([listener.close(), listener.end()]))
  const [stuck, slow, tunnel] = await Promise.all([1, 2, 3].map(() => converse(listener.url)))
  assert.ok(stuck && slow && tunnel)
  const clients = [stuck, slow, tunnel]
  for (const { socket } of clients) socket.pause().write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  // From here on Node no longer looks after this one.
  tunnel.socket.write('CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n')
  // It takes a chunk now and then, for several times as long as the other one is given.
  slow.socket.on('data', () => slow.socket.pause())
  const take = setInterval(() => slow.socket.resume(), stallMs / 10)
  t.after(() => clearInterval(take))
  await wait(3 * stallMs)
  assert.equal(slow.socket.closed, false)
  assert.ok(slow.received().length > 0)
  for (const { socket, ended, received } of [stuck, tunnel]) {
    socket.resume()
    await ended
    assert.ok(received().length < answer.length, 'it was cut off')
  }
  for (const { socket } of clients) socket.destroy()
})
