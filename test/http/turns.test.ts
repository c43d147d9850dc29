// Turns among the calls of many keys, and the number of concurrent calls of one key.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createOneAtATime, createTurns } from '../../src/http/turns.ts'
import { halfSent, startService } from '../support/service.ts'
import { type Conversation, converse, head, statuses } from './raw.ts'
import { USERS } from './steps.ts'

const ME = '/partner/v1/me'

/** Work that blocks the loop for so long. */
function busyFor(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

test('calls that take long wait for later turns, in which the keys take turns', async () => {
  const takeTurn = createTurns(1_000)
  const order: string[] = []
  let timers = 0
  const timer = setInterval(() => {
    timers += 1
  }, 1)
  const call = async (key: string): Promise<void> => {
    const { come, leave } = takeTurn(key)
    await come()
    // Wherever in the call the long work is: here one function awaits another, somewhere below.
    for (let depth = 0; depth < 20; depth += 1) await null
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

test('quick calls are handled in one turn of the event loop, and none of them has waited', async () => {
  const takeTurn = createTurns(1_000)
  let turns = 0
  let next = setImmediate(function count() {
    turns += 1
    next = setImmediate(count)
  })
  const waited = await Promise.all(Array.from({ length: 64 }, () => takeTurn('key').come()))
  clearImmediate(next)
  assert.deepEqual([turns, new Set(waited)], [1, new Set([false])])
})

test('what comes while others wait does not overtake them, and is told that it has waited', async () => {
  const takeTurn = createTurns(1_000)
  const order: string[] = []
  const call = async (name: string): Promise<boolean> => {
    const hasWaited = await takeTurn('key').come()
    order.push(name)
    busyFor(11)
    return hasWaited
  }
  const first = call('first')
  const second = call('second')
  await first
  const third = call('third')
  assert.deepEqual(await Promise.all([first, second, third]), [false, true, true])
  assert.deepEqual(order, ['first', 'second', 'third'])
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

test('a call that ends makes room for one more of its key', () => {
  const takeTurn = createTurns(2)
  const [first] = [takeTurn('key'), takeTurn('key')]
  assert.throws(() => takeTurn('key'), { code: 'too_many_calls' })
  first?.leave()
  takeTurn('key')
  assert.throws(() => takeTurn('key'), { code: 'too_many_calls' })
})

test('a key with its full number of calls under way is put off, and no other one is', async (t) => {
  const service = await startService(t, { more: () => ({ callsPerKey: 3 }) })
  const other = await service.issueKey('bolt', 'test')
  const open = await Promise.all([1, 2, 3].map(() => halfSent(service.url, service.key)))
  const refused = await service.call('GET', ME)
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '1'])
  assert.equal((await service.call('GET', ME, undefined, { key: other })).status, 200)
  assert.deepEqual(await Promise.all(open.map(({ finish }) => finish())), [200, 200, 200])
  assert.equal((await service.call('GET', ME)).status, 200)
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
  // A new call waits even when another has just ended.
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
