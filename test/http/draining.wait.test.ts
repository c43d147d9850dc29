// A stop: calls in flight are answered, no further work is done, and no client can delay it.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createApp } from '../../src/http/app.ts'
import { type Listener, listenOn } from '../../src/http/listen.ts'
import { silentLog } from '../../src/log.ts'
import { machineAt } from '../../src/machine.ts'
import { notDelivered, type Service, startService, T0, USER } from '../support/service.ts'
import { within } from '../support/within.ts'
import { converse, head, LOCAL, statuses } from './raw.ts'
import { DUE, link, PRICE, plan, poll, USERS } from './steps.ts'

/** The time for a stop with no work left: well under the limit of 30 s that operators see. */
const STOP_MS = 5_000

const BODY = JSON.stringify(USER)
const postHead = (key: string) =>
  head('POST', USERS, key, [`Content-Length: ${BODY.length}`, 'Expect: 100-continue'])

/** A service with due executions, and a second listener to it that the test may close. */
async function withDoor(t: TestContext): Promise<{ service: Service; door: Listener }> {
  const service = await startService(t)
  await link(service, 'p')
  await plan(service, 'p', 'p')
  await service.tick(PRICE)
  const { store } = service
  const machine = { ...machineAt(T0).machine, clock: service.now }
  const guard = { checkUrl: async () => {} }
  const app = createApp({ store, machine, guard, send: notDelivered, log: silentLog, rateLimit: null })
  const door = await listenOn(app, LOCAL)
  t.after(() => door.end())
  return { service, door }
}

for (const when of ['together with the rest of the call before', 'after the answer before'] as const) {
  test(`a poll sent during a stop, ${when}, leases nothing`, async (t) => {
    const { service, door } = await withDoor(t)
    const client = await converse(door.url)
    client.socket.write(postHead(service.key))
    await client.until(/100 Continue/)
    const closed = door.close()
    const due = head('GET', DUE, service.key)
    if (when === 'after the answer before') {
      client.socket.write(BODY)
      await client.until(/\r\n\r\n\{/)
      client.socket.write(due)
    } else client.socket.write(BODY + due)
    // The client never ends its side.
    await within(STOP_MS, 'the stop', closed)
    assert.deepEqual(statuses(client.received()), [100, 200])
    assert.match(client.received(), /^connection: close\r$/im)
    assert.equal((await poll(service)).get('p')?.[0]?.delivered_count, 1)
  })
}

test('calls sent ahead are answered if they were begun, and the last answer says that it is the last', async (t) => {
  const { service, door } = await withDoor(t)
  const client = await converse(door.url)
  client.socket.write(head('GET', '/partner/v1/me', service.key).repeat(3) + postHead(service.key))
  await client.until(/100 Continue/)
  const closed = door.close()
  client.socket.write(BODY)
  await within(STOP_MS, 'the stop', closed)
  assert.deepEqual(statuses(client.received()), [200, 200, 200, 100, 200])
  assert.equal(client.received().match(/^connection: close\r$/gim)?.length, 1)
})

test('clients that keep their connection open, idle or not, do not delay a stop', async (t) => {
  const { service, door } = await withDoor(t)
  const clients = await Promise.all([1, 2, 3].map(() => converse(door.url)))
  const [idle, , half] = clients
  idle?.socket.write(head('GET', '/partner/v1/me', service.key))
  await idle?.until(/\r\n\r\n\{/)
  half?.socket.write('GET /partner/v1/me HTTP/1.1\r\nHo')
  await within(STOP_MS, 'the stop', door.close())
})

for (const leave of ['end', 'destroy'] as const) {
  test(`a client that leaves in the middle of its body does not delay a stop (${leave})`, async (t) => {
    const { service, door } = await withDoor(t)
    const client = await converse(door.url)
    client.socket.write(postHead(service.key))
    await client.until(/100 Continue/)
    client.socket.write(BODY.slice(0, 10))
    const closed = door.close()
    client.socket[leave]()
    await within(STOP_MS, 'the stop', closed)
  })
}
