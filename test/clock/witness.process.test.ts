// The price feed's own time as a second witness: a pass under a clock that it contradicts does nothing at all.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Dispute, decideDispute, type Testimony } from '../../src/core/clock.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import type { Exchange } from '../../src/price/feed.ts'
import { majority, servedAt, tell } from '../../src/price/fetch.ts'
import { quoted, read, startTicker, tickersAt } from '../price/ticker.ts'
import { allExecutions, allPlans } from '../store/world.ts'
import { WITH_OPS } from '../support/process.ts'
import { T0 } from '../support/service.ts'
import { httpDate, now, openShop, type Shop } from './wrong-clock.ts'

const YEAR_MS = 365 * DAY_MS
const testimony = (at: Instant, source = 'x'): Testimony => ({ source, at })

describe('what an answer tells of the time', () => {
  test('its Date, and that with its Age on top', () => {
    assert.deepEqual(servedAt({ date: httpDate(T0) }), [T0])
    const before = plus(T0, -HOUR_MS)
    assert.deepEqual(servedAt({ date: httpDate(before), age: '3600' }), [before, T0])
    assert.deepEqual(servedAt({ date: httpDate(T0), age: 'old' }), [T0])
    assert.deepEqual(servedAt({}), [])
    for (const date of ['', 'now', 'Mon, 99 Jan 2026 00:00:00 GMT', '2026-01-05T00:00:00Z'])
      assert.deepEqual(servedAt({ date }), [], date)
  })

  test('of several times the one nearest to the clock', () => {
    assert.deepEqual(tell('x', [plus(T0, -DAY_MS), plus(T0, 7), null], T0), testimony(plus(T0, 7)))
    assert.equal(tell('x', [null, null], T0), 'silent')
  })

  const [right, wrong] = [T0, plus(T0, -YEAR_MS)]
  const votes: [what: string, of: ('silent' | Instant)[], result: Instant | null][] = [
    ['one alone', [wrong], wrong],
    ['three against one with a wrong clock', [right, wrong, right, right], right],
    ['two against one', [wrong, plus(wrong, 5), right], plus(wrong, 5)],
    ['two against two: nobody', [right, right, wrong, wrong], null],
    ['three that all differ: nobody', [wrong, right, plus(right, DAY_MS)], null],
    ['the silent do not vote', ['silent', 'silent', wrong], wrong],
    ['all silent', ['silent', 'silent'], null],
  ]
  for (const [what, said, result] of votes) {
    test(`of several sources: ${what}`, () => {
      const of = said.map((one) => (one === 'silent' ? one : testimony(one)))
      assert.deepEqual(majority('m', of), result === null ? 'silent' : testimony(result, 'm'))
    })
  }
})

describe('a feed passes on what its answers tell', { concurrency: true }, () => {
  test('a ticker with a time of its own, and one without', async (t) => {
    const headers = { date: httpDate(T0) }
    for (const [exchange, answer] of Object.entries(tickersAt('60000'))) {
      const { origin } = await startTicker(t, { body: JSON.stringify(answer), headers })
      const { testimony: heard } = await read(exchange, { [exchange as Exchange]: origin })
      assert.ok(typeof heard === 'object' && Math.abs(heard.at - T0) < 1000, exchange)
    }
  })

  test('a market that rests: its price is old and not taken, the clock is confirmed', async (t) => {
    const answer = { ...tickersAt('60000').coinbase, time: '2026-01-04T00:00:00Z' }
    const { origin } = await startTicker(t, { body: JSON.stringify(answer), headers: { date: httpDate(T0) } })
    const { observed, testimony: heard } = await read('coinbase', { coinbase: origin })
    assert.equal(observed, null)
    assert.deepEqual(heard, testimony(T0, 'coinbase'))
  })

  test('an exchange whose server is a day wrong, with a right time in its ticker', async (t) => {
    const headers = { date: httpDate(plus(T0, DAY_MS)) }
    const { origin } = await startTicker(t, { body: JSON.stringify(tickersAt('60000').bitstamp), headers })
    const { observed, testimony: heard } = await read('bitstamp', { bitstamp: origin })
    assert.deepEqual([observed, heard], [quoted('60000', 'bitstamp'), testimony(T0, 'bitstamp')])
  })

  test('nobody is asked: none; nobody answers: silent', async () => {
    assert.equal((await read('none')).testimony, 'none')
    assert.equal((await read('static:60000')).testimony, 'none')
    assert.equal((await read('kraken', { kraken: 'http://127.0.0.1:9' })).testimony, 'silent')
  })
})

test('a dispute begins beyond ten minutes and lasts until a witness agrees or the clock is set', () => {
  const ahead: Dispute = { clockAt: plus(T0, YEAR_MS), witness: { source: 'x', at: T0 } }
  const behind: Dispute = { clockAt: T0, witness: { source: 'x', at: plus(T0, YEAR_MS) } }
  const later = (dispute: Dispute, ms: number): Dispute => ({
    clockAt: plus(dispute.clockAt, ms),
    witness: { source: 'x', at: plus(dispute.witness.at, ms) },
  })
  const minutes = (n: number) => decideDispute(plus(T0, n * MINUTE_MS), testimony(T0), null)
  assert.deepEqual([minutes(10), minutes(-10)], [null, null])
  assert.ok(minutes(11) && minutes(-11))
  assert.equal(decideDispute(T0, 'silent', null), null)
  assert.deepEqual(decideDispute(plus(ahead.clockAt, HOUR_MS), 'silent', ahead), later(ahead, HOUR_MS))
  assert.deepEqual(decideDispute(plus(T0, HOUR_MS), 'silent', behind), later(behind, HOUR_MS))
  assert.equal(decideDispute(plus(T0, HOUR_MS), 'silent', ahead), null, 'the clock was set back')
  assert.equal(decideDispute(plus(T0, YEAR_MS), 'silent', behind), null, 'the clock was set forward')
  assert.equal(decideDispute(ahead.clockAt, 'none', ahead), null, 'nobody is asked any more')
  assert.equal(decideDispute(T0, testimony(T0), ahead), null)
})

/** Everything that a pass could have changed. */
const traces = async ({ store }: Shop) => ({
  executions: (await allExecutions(store)).length,
  windows: (await allPlans(store)).map(({ window }) => window?.start),
  prices: await store.listPrices({ after: null, limit: 10 }),
  passes: (await store.listPassesAfter(0)).length,
})
const kinds = async (shop: Shop): Promise<string[]> =>
  (await shop.store.findWarnings()).map(({ kind }) => kind)

for (const [name, shift] of [
  ['a year ahead', YEAR_MS],
  ['a day behind', -DAY_MS],
] as const) {
  test(`tick in a process ${name}: exit 1, and nothing is fired, rolled or stored`, async (t) => {
    const shop = await openShop(t)
    const before = await traces(shop)
    const words = /The clock is in doubt: this machine shows .* and 127\.0\.0\.1:\d+ /
    const said = await shop.runApart(shift, '--json', 'tick', '--price-feed', shop.feed)
    assert.equal(said.code, 1, said.err)
    assert.equal(said.out, '')
    const { error } = JSON.parse(said.err)
    assert.equal(error.code, 'clock_disputed')
    assert.match(error.message, words)
    assert.deepEqual(await traces(shop), before)
    assert.ok((await kinds(shop)).includes('clock_disputed'))
    assert.equal((await shop.run(shift, 'tick', '--dry-run', '--price-feed', shop.feed)).code, 1)
    assert.equal((await shop.run(shift, 'price', 'fetch', '--price-feed', shop.feed)).code, 1)
    // The feed is down now, and the clock still wrong.
    assert.equal((await shop.run(shift, 'tick', '--price-feed', 'http://127.0.0.1:9#/price')).code, 1)
    assert.deepEqual(await traces(shop), before)

    assert.equal((await shop.run(0, 'tick', '--price-feed', shop.feed)).code, 0)
    assert.equal((await traces(shop)).executions, 3)
    assert.ok(!(await kinds(shop)).includes('clock_disputed'))
  })
}

test('serve logs the error, and is not ready while the dispute lasts', async (t) => {
  const shop = await openShop(t)
  const { child, line, opsUrl } = await shop.serve(
    YEAR_MS,
    ...['--tick-every', '1s', '--price-feed', shop.feed, ...WITH_OPS],
  )
  assert.match(await line('clock_disputed'), /"level":"error".*The clock is in doubt/)
  const answer = await fetch(`${opsUrl}/readyz`)
  const { ready, reasons } = (await answer.json()) as { ready: boolean; reasons: string[] }
  assert.deepEqual([answer.status, ready], [503, false])
  assert.match(reasons.join(), /The clock is in doubt/)
  assert.equal((await traces(shop)).executions, 0)
  child.kill('SIGTERM')
})

test('a wrong witness holds nobody up forever: a tick that asks nobody goes on', async (t) => {
  const shop = await openShop(t)
  shop.headers.date = httpDate(plus(now(), -DAY_MS))
  assert.equal((await shop.run(0, 'tick', '--price-feed', shop.feed)).code, 1)
  assert.equal((await shop.run(0, 'tick')).code, 0)
  assert.ok(!(await kinds(shop)).includes('clock_disputed'))
  shop.headers.age = String(DAY_MS / 1000)
  // A cache says how old its answer is.
  assert.equal((await shop.run(0, 'tick', '--price-feed', shop.feed)).code, 0)
  // A cache that writes its own date, and passes on the age of the answer.
  shop.headers.date = httpDate(now())
  assert.equal((await shop.run(0, 'tick', '--price-feed', shop.feed)).code, 0)
  assert.ok(!(await kinds(shop)).includes('clock_disputed'))
})
