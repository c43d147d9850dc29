// Price feeds against servers that answer as the exchanges do, and as they do on a bad day.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, type TestContext, test } from 'node:test'
import { HOUR_MS, plus } from '../../src/core/instant.ts'
import { Problem } from '../../src/core/problem.ts'
import { machineAt } from '../../src/machine.ts'
import { EXCHANGES, type Exchange } from '../../src/price/exchange.ts'
import { createFeed } from '../../src/price/feed.ts'
import { runHere } from '../command.ts'
import { PLAN, startService, T0, USER } from '../harness.ts'
import { type Answer, json, quoted, read, startTicker, tickersAt } from './ticker.ts'

const GOOD = tickersAt('64250.50')

describe('an exchange that answers in its own shape', { concurrency: true }, () => {
  const spread = { bid: '64250.00', ask: '64251.00' }
  const cases: [string, Exchange, unknown, string][] = [
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
    ['19 minutes old', 'bitstamp', { ...GOOD.bitstamp, timestamp: String(T0 / 1000 - 19 * 60) }, '64250.50'],
  ]
  for (const [name, exchange, answer, usd] of cases) {
    test(name, async (t) => {
      const { origin, asked } = await startTicker(t, json(answer))
      const { observed, warnings } = await read(exchange, { [exchange]: origin })
      assert.deepEqual(observed, quoted(usd, exchange))
      assert.deepEqual(warnings, [])
      assert.deepEqual(asked, [`GET ${EXCHANGES[exchange].path}`])
    })
  }
})

describe('a source that answers badly gives no price and a warning that says why', {
  concurrency: true,
}, () => {
  const coinbase = (over: object): Answer =>
    json({ ...GOOD.coinbase, bid: undefined, ask: undefined, ...over })
  const cases: [string, Exchange, Answer, RegExp][] = [
    ['500', 'coinbase', { status: 500, body: JSON.stringify(GOOD.coinbase) }, /HTTP 500/],
    ['429', 'gemini', { status: 429, body: '{}' }, /HTTP 429/],
    ['302', 'coinbase', { status: 302, headers: { location: '/elsewhere' }, body: '' }, /HTTP 302/],
    ['HTML with 200', 'bitstamp', { body: '<html><body>Maintenance</body></html>' }, /no JSON/],
    ['an empty body', 'bitstamp', { body: '' }, /no JSON/],
    ['half a document', 'coinbase', { body: '{"price":"642' }, /no JSON/],
    [
      'kraken with 200 and an error',
      'kraken',
      json({ error: ['EQuery:Unknown asset pair'] }),
      /Unknown asset pair/,
    ],
    [
      'kraken with a price and an error',
      'kraken',
      json({ ...GOOD.kraken, error: ['EService:Busy'] }),
      /Busy/,
    ],
    ['kraken without a result', 'kraken', json({ error: [] }), /no "result"/],
    ['kraken with an empty result', 'kraken', json({ error: [], result: {} }), /no object/],
    ['zero', 'coinbase', coinbase({ price: '0' }), /zero/],
    ['zero with places', 'coinbase', coinbase({ price: '0.00' }), /zero/],
    ['under a unit', 'coinbase', coinbase({ price: '0.000000001' }), /zero/],
    ['negative', 'coinbase', coinbase({ price: '-64250.50' }), /-64250\.50/],
    ['"NaN"', 'coinbase', coinbase({ price: 'NaN' }), /NaN/],
    ['"Infinity"', 'coinbase', coinbase({ price: 'Infinity' }), /Infinity/],
    ['an exponent', 'coinbase', coinbase({ price: '6.4e4' }), /6\.4e4/],
    ['hexadecimal', 'coinbase', coinbase({ price: '0xfafa' }), /0xfafa/],
    ['a comma', 'coinbase', coinbase({ price: '64,250.50' }), /64,250/],
    ['null', 'coinbase', coinbase({ price: null }), /null/],
    ['no price', 'coinbase', coinbase({ price: undefined }), /last price/],
    ['a list', 'gemini', json([]), /undefined|no object|no "volume"/],
    ['a bare number', 'gemini', { body: '64250' }, /no object/],
    ['no time', 'coinbase', coinbase({ time: undefined }), /its time/],
    ['bitstamp without a time', 'bitstamp', json({ ...GOOD.bitstamp, timestamp: undefined }), /timestamp/],
    ['an hour old', 'coinbase', coinbase({ time: '2026-01-04T23:00:00Z' }), /60 minutes old/],
    [
      'an hour old, in ms',
      'gemini',
      json({ ...GOOD.gemini, volume: { timestamp: T0 - HOUR_MS } }),
      /60 minutes old/,
    ],
    [
      'from the future',
      'bitstamp',
      json({ ...GOOD.bitstamp, timestamp: String(T0 / 1000 + 3600) }),
      /-60 minutes/,
    ],
    ['a huge body', 'coinbase', { body: `{"price":"1","x":"${'x'.repeat(300_000)}"}` }, /larger than/],
    ['a hung up connection', 'coinbase', (request) => request.socket.destroy(), /coinbase: ./],
  ]
  for (const [name, exchange, answer, why] of cases) {
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

  for (const [name, answer] of slowAnswers()) {
    test(name, async (t) => {
      const { origin } = await startTicker(t, answer)
      const { observed, warnings } = await read('coinbase', { coinbase: origin })
      assert.equal(observed, null)
      assert.match(warnings.join(), /within 3 s/)
    })
  }

  test('connection refused', async () => {
    const { observed, warnings } = await read('kraken', { kraken: await closedOrigin() })
    assert.equal(observed, null)
    assert.match(warnings.join(), /price feed kraken: .*ECONNREFUSED/)
  })
})

function slowAnswers(): [string, Answer][] {
  const never: Answer = () => {}
  const drip: Answer = (_, response) => {
    response.write('{"price":"642')
    const timer = setInterval(() => response.write('0'), 200)
    response.once('close', () => clearInterval(timer))
  }
  return [
    ['no answer within the limit', never],
    ['a body that never ends', drip],
  ]
}

async function closedOrigin(): Promise<string> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
}

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

describe('a JSON ticker of anybody', { concurrency: true }, () => {
  const cases: [string, string, string, string][] = [
    ['a member of a list', '{"a":[{"b":"64250.5"}]}', '#/a/0/b', '64250.5'],
    ['a number', '{"a":[{"b":64250.5}]}', '#/a/0/b', '64250.5'],
    ['a number a double cannot hold', '{"p":12345678.123456785}', '#/p', '12345678.12345678'],
    ['trailing zeros and many places', '{"p":64250.500000000000000000001}', '#/p', '64250.5'],
    ['escapes of the pointer', '{"a/b":{"c~d":"1"}}', '#/a~1b/c~0d', '1'],
    ['a name of percent-encoded text', '{"last price":"7"}', '#/last%20price', '7'],
    ['an empty name', '{"":"7"}', '#/', '7'],
  ]
  for (const [name, body, pointer, usd] of cases) {
    test(name, async (t) => {
      const { origin, asked } = await startTicker(t, { body })
      const { observed, warnings } = await read(`${origin}/x?pair=btc${pointer}`)
      assert.deepEqual([observed, warnings], [quoted(usd, new URL(origin).host), []])
      assert.deepEqual(asked, ['GET /x?pair=btc'])
    })
  }

  const bad: [string, string, string, RegExp][] = [
    ['no such member', '{"a":{}}', '#/a/b', /no "b"/],
    ['an inherited member', '{"a":{}}', '#/a/constructor', /no "constructor"/],
    ['an object where a price should be', '{"a":{"b":{}}}', '#/a/b', /its price is \{\}/],
    ['a number with an exponent', '{"p":6.4e4}', '#/p', /6\.4e4/],
    ['a number below zero', '{"p":-1}', '#/p', /-1/],
    ['true', '{"p":true}', '#/p', /true/],
  ]
  for (const [name, body, pointer, why] of bad) {
    test(name, async (t) => {
      const { origin } = await startTicker(t, { body })
      const { observed, warnings } = await read(`${origin}/x${pointer}`)
      assert.equal(observed, null)
      assert.match(warnings.join(), why)
    })
  }

  test('a path that starts with two slashes stays on its host', async (t) => {
    const { origin, asked } = await startTicker(t, { body: '{"p":"5"}' })
    assert.deepEqual((await read(`${origin}//192.0.2.1/x#/p`)).observed?.price, quoted('5', '').price)
    assert.deepEqual(asked, ['GET //192.0.2.1/x'])
  })
})

describe('a SPEC', () => {
  test('none and static ask nobody', async () => {
    assert.equal((await read('none')).observed, null)
    assert.deepEqual((await read('static:64250.50')).observed, quoted('64250.50', 'static:64250.50'))
  })

  const refused = [
    '',
    'Coinbase',
    'binance',
    'static:',
    'static:0',
    'static:0.00',
    'static:-5',
    'static:1e5',
    'static:NaN',
    'https://example.com/ticker',
    'https://example.com/ticker#price',
    'http://example.com/ticker#/price',
    'http://127.0.0.1.example.com/ticker#/price',
    'http://10.0.0.1/ticker#/price',
    'ftp://127.0.0.1/ticker#/price',
    'file:///etc/passwd#/price',
    'toString',
  ]
  for (const spec of refused) {
    test(`${JSON.stringify(spec)} is refused`, () => {
      const create = () => createFeed(spec, { clock: () => T0, warn: assert.fail })
      assert.throws(create, (error) => error instanceof Problem && error.code === 'usage')
    })
  }
})

test('a failing feed makes a tick go by the clock: it warns, exits 0 and still buys', async (t) => {
  const service = await startService(t)
  await service.call('POST', '/partner/v1/users', USER)
  await service.call('POST', '/partner/v1/plans', PLAN)
  const { origin } = await startTicker(t, { status: 500, body: 'down' })
  const { machine, setClock } = machineAt(T0)
  const tick = () =>
    runHere(['--db', service.file, '--json', 'tick', '--price-feed', `${origin}/x#/p`], machine)

  const early = await tick()
  assert.equal(early.code, 0)
  assert.match(early.err, /^warning: price feed 127\.0\.0\.1:\d+: HTTP 500\n$/)
  assert.deepEqual(fired(early.out), { price_usd: null, executions_created: 0 })

  // Two units in a slot of eight hours: the first is due in the middle of the first four.
  setClock(plus(T0, 2 * HOUR_MS))
  const due = await tick()
  assert.equal(due.code, 0)
  assert.deepEqual(fired(due.out), { price_usd: null, executions_created: 1 })
  const [execution] = await service.store.listExecutions(
    { slug: null, environment: null, status: null, stuck: false },
    { after: null, limit: 10 },
  )
  assert.equal(execution?.firing.trigger, 'clock')
})

function fired(out: string): { price_usd: string | null; executions_created: number } {
  const { price_usd, executions_created } = JSON.parse(out)
  return { price_usd, executions_created }
}
