// Whose turn it is: among the connections that call at once, and among the keys whose calls take long.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createApp } from '../../src/http/app.ts'
import { readDocs } from '../../src/http/docs/page.ts'
import { getDescription } from '../../src/http/openapi/document.ts'
import { CALLS_PER_TURN, createGates, createOneAtATime, createTurns } from '../../src/http/turns.ts'
import { silentLog } from '../../src/log.ts'
import { machineAt } from '../../src/machine.ts'
import { halfSent, notDelivered, startService, T0 } from '../support/service.ts'
import { type Conversation, converse, head, statuses } from './raw.ts'
import { USERS } from './steps.ts'

const ME = '/partner/v1/me'

test('a turn begins so many calls and no more, and leaves none behind', async () => {
  const gate = createGates()()
  const begun: number[] = []
  for (let i = 0; i < 3 * CALLS_PER_TURN + 1; i++) gate(() => begun.push(i))
  for (const turns of [1, 2, 3]) {
    assert.equal(begun.length, turns * CALLS_PER_TURN)
    await turn()
  }
  assert.deepEqual(
    begun,
    Array.from({ length: 3 * CALLS_PER_TURN + 1 }, (_, i) => i),
  )
})

test('a call of a quiet connection waits for one call of each busy one, not for all of theirs', async () => {
  const openGate = createGates()
  const busy = [openGate(), openGate(), openGate()]
  const quiet = openGate()
  const begun: string[] = []
  for (let call = 0; call < 100; call++) for (const gate of busy) gate(() => begun.push('busy'))
  quiet(() => begun.push('quiet'))
  await turn()
  assert.ok(begun.slice(CALLS_PER_TURN, CALLS_PER_TURN + 4).includes('quiet'), begun.join())
})

test('what comes while others wait does not overtake them', async () => {
  const gate = createGates()()
  const begun: string[] = []
  for (let i = 0; i < CALLS_PER_TURN; i++) gate(() => {})
  gate(() => {
    begun.push('first')
    gate(() => begun.push('third'))
  })
  gate(() => begun.push('second'))
  await turn()
  await turn()
  assert.deepEqual(begun, ['first', 'second', 'third'])
})

// Whose turn it is among the calls of many keys, and how many calls one key may have at once.

/** Work that holds the loop for so long. */
function busyFor(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

const HEAVY = { isLight: false }
const LIGHT = { isLight: true }

test('calls that take long wait for later turns, in which the keys take turns', async () => {
  const takeTurn = createTurns(1_000)
  const order: string[] = []
  let timers = 0
  const timer = setInterval(() => {
    timers += 1
  }, 1)
  const call = async (key: string): Promise<void> => {
    const { come, leave } = takeTurn(key)
    await come(HEAVY)
    busyFor(6)
    order.push(key)
    leave()
  }
  const crowd = Array.from({ length: 20 }, () => call('crowd'))
  await Promise.all([...crowd, call('other'), call('other')])
  clearInterval(timer)
  const [first, second] = order.flatMap((key, i) => (key === 'other' ? [i] : []))
  assert.ok(first !== undefined && second !== undefined && second <= 6, order.join(' '))
  assert.ok(timers > 3, `timers ran ${timers} times in between`)
})

test('calls that begin at once are measured, wherever in them the long work is', async () => {
  const takeTurn = createTurns(1_000)
  const order: string[] = []
  const call = async (key: string): Promise<void> => {
    const { come, leave } = takeTurn(key)
    await come(HEAVY)
    // Somewhere below, one function awaits another.
    for (let depth = 0; depth < 20; depth += 1) await null
    busyFor(6)
    order.push(key)
    leave()
  }
  const crowd = Array.from({ length: 20 }, () => call('crowd'))
  await Promise.all([...crowd, turn().then(() => call('other'))])
  assert.ok(order.indexOf('other') <= 6, order.join(' '))
})

test('calls that are quick are handled as they come, in one turn of the event loop', async () => {
  const takeTurn = createTurns(1_000)
  assert.equal(takeTurn('key').come(HEAVY), null)
  let isOver = false
  setImmediate(() => {
    isOver = true
  })
  await Promise.all(Array.from({ length: 64 }, () => takeTurn('key').come(HEAVY)))
  assert.equal(isOver, false)
})

test('light calls go on together, within the time of a turn and behind what waits', async () => {
  const takeTurn = createTurns(1_000)
  const come = (call: typeof LIGHT) => takeTurn('key').come(call)
  assert.deepEqual([come(LIGHT), come(LIGHT), come(HEAVY)], [null, null, null])
  assert.equal(await come(LIGHT), false, 'a heavy one is on its way')
  busyFor(11)
  assert.equal(await come(LIGHT), true, 'in another turn')
})

test('bodies that take long to read delay the calls of their own key alone', async (t) => {
  const { url, key, issueKey } = await startService(t)
  const otherKey = await issueKey('bolt', 'test')
  const open = async (theirs: string): Promise<Conversation> => {
    const client = await converse(url)
    t.after(() => client.socket.destroy())
    client.socket.write(head('GET', ME, theirs))
    await client.until(/\}$/)
    return client
  }
  const crowd = await Promise.all(Array.from({ length: 48 }, () => open(key)))
  const other = await open(otherKey)
  // As costly as 64 kB can be: nested, and broken at the end.
  const costly = '['.repeat(60_000)
  const post = head('POST', USERS, key, [`Content-Length: ${costly.length}`]) + costly
  for (const { socket } of crowd) socket.write(post)
  await Promise.race(crowd.map(({ until }) => until(/HTTP\/1\.1 422 [\s\S]*\}$/)))
  const answered = () => crowd.filter(({ received }) => statuses(received()).length === 2).length
  const before = answered()
  other.socket.write(head('GET', ME, otherKey))
  await other.until(/HTTP\/1\.1 200 [\s\S]*HTTP\/1\.1 200 [\s\S]*\}$/)
  t.diagnostic(`${before} and ${answered() - before} of ${crowd.length} calls of the crowd came first`)
  assert.ok(answered() - before <= 16, `${answered() - before} calls of the crowd came first`)
})

test('large answers that need no key are kept as bytes, and go out one in a turn', async (t) => {
  assert.ok(getDescription.ready)
  for (const read of [getDescription.ready, async () => (await readDocs('/docs/description.json')).body]) {
    const bytes = await read()
    assert.ok(bytes instanceof Uint8Array)
    assert.equal(await read(), bytes)
  }
  let turns = 0
  let next = setImmediate(function count() {
    turns += 1
    next = setImmediate(count)
  })
  t.after(() => clearImmediate(next))
  const { machine } = machineAt(T0)
  const guard = { checkUrl: async () => {} }
  const app = createApp({
    store: null,
    machine,
    guard,
    deliver: notDelivered,
    log: silentLog,
    rateLimit: null,
  })
  const paths = [
    '/openapi.json',
    '/docs/description.json',
    '/openapi.json',
    '/docs/viewer.css',
    '/openapi.json',
  ]
  const answered = await Promise.all(
    paths.map(async (path) => {
      const { status } = await app.fetch(new Request(`http://localhost${path}`))
      assert.equal(status, 200)
      return turns
    }),
  )
  assert.equal(new Set(answered).size, paths.length, answered.join())
})

test('a key with its full number of calls under way is put off, and no other one is', async (t) => {
  const service = await startService(t, { more: () => ({ callsPerKey: 3 }) })
  const other = await service.issueKey('bolt', 'test')
  const open = await Promise.all([1, 2, 3].map(() => halfSent(service.url, service.key)))
  const refused = await service.call('GET', '/partner/v1/me')
  assert.equal(refused.status, 429)
  assert.equal(refused.headers.get('retry-after'), '1')
  assert.equal((await service.call('GET', '/partner/v1/me', undefined, { key: other })).status, 200)
  assert.deepEqual(await Promise.all(open.map(({ finish }) => finish())), [200, 200, 200])
  assert.equal((await service.call('GET', '/partner/v1/me')).status, 200)
})

test('slow work of a tenant is done one piece at a time, that of another meanwhile, and a failure holds up none', async () => {
  const alone = createOneAtATime()
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const work = (tenant: number, name: string): Promise<void> =>
    alone(tenant, async () => {
      begun.push(name)
      const { promise, resolve } = Promise.withResolvers<void>()
      ends.set(name, resolve)
      await promise
      if (name === 'b') throw new Error('failed')
    })
  const [a, b] = [work(1, 'a'), work(1, 'b')]
  work(2, 'of another')
  await turn()
  assert.deepEqual(begun, ['a', 'of another'])
  ends.get('a')?.()
  await a
  // One waits when another has just ended.
  const c = work(1, 'c')
  await turn()
  assert.deepEqual(begun, ['a', 'of another', 'b'])
  ends.get('b')?.()
  await assert.rejects(b, /failed/)
  await turn()
  assert.deepEqual(begun, ['a', 'of another', 'b', 'c'])
  ends.get('c')?.()
  await c
})
