// Whose turn it is among the calls of many keys, and how many calls one key may have at once.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTurns } from '../../src/http/turns.ts'
import { halfSent, startService } from '../support/service.ts'

/** Work that holds the loop for so long. */
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
    const { ready, leave } = takeTurn(key)
    if (ready) await ready
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

test('calls that are quick are handled as they come', () => {
  const takeTurn = createTurns(1_000)
  assert.ok(Array.from({ length: 64 }, () => takeTurn('key')).every(({ ready }) => ready === null))
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
