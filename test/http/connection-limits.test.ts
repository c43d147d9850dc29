// How many connections there may be, in all and from one address.

import assert from 'node:assert/strict'
import { networkInterfaces } from 'node:os'
import { type TestContext, test } from 'node:test'
import { connectionLimitsOf } from '../../src/cli/service/serve-options.ts'
import { listenOn } from '../../src/http/listen.ts'
import { networkOf } from '../../src/http/request.ts'
import { type Conversation, converse } from './conversation.ts'

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
const answering = { fetch: () => new Response('there') }

/** Opens so many connections, one after another, and tells how many of them are answered while all are open. */
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
  const options = { host: '127.0.0.1', port: 0, tls: null, uuid: () => 'u', onTurnedAway, ...limits }
  const listener = await listenOn(answering, options)
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
  // A machine without a network has no other address; there the exemption of its own is what is left to see.
  const host = outside?.address ?? '127.0.0.1'
  const listener = await listenOn(answering, {
    host,
    port: 0,
    tls: null,
    uuid: () => 'u',
    onTurnedAway,
    ...limits,
  })
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
  assert.deepEqual(connectionLimitsOf({ maxConnections: 2 }), {
    connectionsMax: 2,
    connectionsPerAddressMax: 1,
  })
  assert.deepEqual(connectionLimitsOf({ maxConnections: 50, maxConnectionsPerAddress: 50 }), {
    connectionsMax: 50,
    connectionsPerAddressMax: 50,
  })
})
