// Price feeds against servers that answer as the exchanges do, and as they do on a bad day.

import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { EXCHANGES, type Exchange } from '../../src/price/feed.ts'
import { T0 } from '../support/service.ts'
import { freePort } from '../support/within.ts'
import { type Answer, json, quoted, read, startTicker, tickersAt } from './ticker.ts'

const GOOD = tickersAt('64250.50')

describe('an exchange that answers in its own shape', { concurrency: true }, () => {
  const spread = { bid: '64250.00', ask: '64251.00' }
  const cases: [string, Exchange, unknown, string, Record<string, string>?][] = [
    ['coinbase, mid of bid and ask', 'coinbase', { ...GOOD.coinbase, ...spread }, '64250.5'],
    ['coinbase without a book', 'coinbase', { price: '64249.99', time: '2026-01-05T00:00:00Z' }, '64249.99'],
    [
      'coinbase, crossed book: last',
      'coinbase',
      { ...GOOD.coinbase, bid: '64300', ask: '64200' },
      '64250.50',
    ],
    ['coinbase, bid of zero: last', 'coinbase', { ...GOOD.coinbase, bid: '0' }, '64250.50'],
    ['kraken', 'kraken', GOOD.kraken, '64250.50'],
    [
      'kraken, any pair name',
      'kraken',
      { error: [], result: { XBTUSD: GOOD.kraken.result.XXBTZUSD } },
      '64250.50',
    ],
    ['bitstamp', 'bitstamp', { ...GOOD.bitstamp, ...spread }, '64250.50'],
    ['gemini, its time a number', 'gemini', GOOD.gemini, '64250.50'],
    ['19 minutes in a cache', 'kraken', GOOD.kraken, '64250.50', { age: '1140' }],
    ['19 minutes old', 'bitstamp', { ...GOOD.bitstamp, timestamp: String(T0 / 1000 - 19 * 60) }, '64250.50'],
  ]
  for (const [name, exchange, answer, usd, headers = {}] of cases) {
    test(name, async (t) => {
      const { origin, asked } = await startTicker(t, { ...json(answer), headers })
      const { observed, warnings } = await read(exchange, { [exchange]: origin })
      assert.deepEqual(observed, quoted(usd, exchange))
      assert.deepEqual(warnings, [])
      assert.deepEqual(asked, [`GET ${EXCHANGES[exchange].path}`])
    })
  }
})

const coinbase = (over: object): Answer => json({ ...GOOD.coinbase, bid: undefined, ask: undefined, ...over })
const BAD: [string, Exchange, Answer, RegExp][] = [
  [
    'kraken with 200 and an error',
    'kraken',
    json({ error: ['EQuery:Unknown asset pair'] }),
    /Unknown asset pair/,
  ],
  ['kraken with a price and an error', 'kraken', json({ ...GOOD.kraken, error: ['EService:Busy'] }), /Busy/],
  ['kraken without a result', 'kraken', json({ error: [] }), /no "result"/],
  ['kraken with an empty result', 'kraken', json({ error: [], result: {} }), /is not an object/],
  ['under a unit', 'coinbase', coinbase({ price: '0.000000001' }), /zero/],
  ['negative', 'coinbase', coinbase({ price: '-64250.50' }), /-64250\.50/],
  ['"Infinity"', 'coinbase', coinbase({ price: 'Infinity' }), /Infinity/],
  ['no price', 'coinbase', coinbase({ price: undefined }), /last price/],
  ['a list', 'gemini', json([]), /undefined|is not an object|no "volume"/],
  ['a bare number', 'gemini', { body: '64250' }, /is not an object/],
  ['no time', 'coinbase', coinbase({ time: undefined }), /its time/],
  ['bitstamp without a time', 'bitstamp', json({ ...GOOD.bitstamp, timestamp: undefined }), /timestamp/],
  ['an hour old', 'coinbase', coinbase({ time: '2026-01-04T23:00:00Z' }), /its price is 1 h old/],
  [
    'from the future',
    'bitstamp',
    json({ ...GOOD.bitstamp, timestamp: String(T0 / 1000 + 3600) }),
    /its price is dated 1 h ahead/,
  ],
  [
    'kraken from a cache, which has no time of its own',
    'kraken',
    { ...json(GOOD.kraken), headers: { age: '86400' } },
    /its answer comes from a cache, where it is 1 d old/,
  ],
]

const SLOW: [string, Answer][] = [
  ['no answer within the limit', () => {}],
  [
    'a body that never ends',
    (_, response) => {
      response.write('{"price":"642')
      const timer = setInterval(() => response.write('0'), 200)
      response.once('close', () => clearInterval(timer))
    },
  ],
]

describe('a source that answers badly gives no price and a warning that says why', {
  concurrency: true,
}, () => {
  for (const [name, exchange, answer, why] of BAD) {
    test(name, async (t) => {
      const { origin, asked } = await startTicker(t, answer)
      const { observed, warnings } = await read(exchange, { [exchange]: origin })
      assert.equal(observed, null)
      assert.equal(warnings.length, 1)
      assert.match(warnings[0] ?? '', why)
      assert.match(warnings[0] ?? '', new RegExp(`^price feed ${exchange}: `))
      assert.equal(asked.length, 1, 'one request, no retry, no redirect followed')
    })
  }

  for (const [name, answer] of SLOW) {
    test(name, async (t) => {
      const { origin } = await startTicker(t, answer)
      const { observed, warnings } = await read('coinbase', { coinbase: origin })
      assert.equal(observed, null)
      assert.match(warnings.join(), /within 3 s/)
    })
  }

  test('connection refused', async () => {
    const { observed, warnings } = await read('kraken', { kraken: `http://127.0.0.1:${await freePort()}` })
    assert.equal(observed, null)
    assert.match(warnings.join(), /price feed kraken: .*ECONNREFUSED/)
  })
})

describe('median', { concurrency: true }, () => {
  type Prices = Partial<Record<Exchange, string>>
  const cases: [string, Prices, string | null, RegExp | null][] = [
    [
      'of four: the middle two',
      { coinbase: '100', kraken: '101', bitstamp: '102', gemini: '103' },
      '101.5',
      null,
    ],
    ['of three: one is down', { coinbase: '100', kraken: '101', bitstamp: '101.5' }, '101', null],
    ['of two', { kraken: '100', gemini: '101' }, '100.5', null],
    [
      'an outlier of 30 % is dropped',
      { coinbase: '100', kraken: '101', bitstamp: '102', gemini: '130' },
      '101',
      null,
    ],
    ['an outlier of three is dropped', { coinbase: '100', kraken: '70', gemini: '100.5' }, '100.25', null],
    ['one fresh source is not enough', { coinbase: '100' }, null, /1 of 4 sources/],
    ['two that disagree', { coinbase: '100', kraken: '130' }, null, /no two agree/],
    ['two camps', { coinbase: '100', kraken: '100', bitstamp: '130', gemini: '130' }, null, /no two agree/],
    ['nobody', {}, null, /no source answered/],
  ]
  for (const [name, prices, expected, why] of cases) {
    test(name, async (t) => {
      const { observed, warnings } = await read('median', await originsOf(t, prices))
      assert.deepEqual(observed, expected === null ? null : quoted(expected, 'median'))
      const down = 4 - Object.keys(prices).length
      assert.equal(warnings.length, down + (why ? 1 : 0))
      if (why) assert.match(warnings.at(-1) ?? '', why)
    })
  }

  test('a stale source does not vote', async (t) => {
    const origins = await originsOf(t, { kraken: '100', gemini: '101' })
    const stale = { ...tickersAt('100').bitstamp, timestamp: String(T0 / 1000 - 1201) }
    origins.bitstamp = (await startTicker(t, json(stale))).origin
    assert.deepEqual((await read('median', origins)).observed, quoted('100.5', 'median'))
  })
})

/** Exchanges that quote the given prices; the others answer 503. */
async function originsOf(t: TestContext, prices: Partial<Record<Exchange, string>>) {
  const origins: Partial<Record<Exchange, string>> = {}
  for (const exchange of Object.keys(EXCHANGES) as Exchange[]) {
    const usd = prices[exchange]
    const answer: Answer = usd ? json(tickersAt(usd)[exchange]) : { status: 503, body: '{}' }
    origins[exchange] = (await startTicker(t, answer)).origin
  }
  return origins
}
