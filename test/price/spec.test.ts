// Feeds by their SPEC: any JSON ticker, a fixed price, none; refused ones; and a tick without a price.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Problem } from '../../src/core/problem.ts'
import { HOUR_MS, plus } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { createFeed } from '../../src/price/feed.ts'
import { allExecutions } from '../store/world.ts'
import { PLAN, runHere, startService, T0, USER } from '../support/service.ts'
import { quoted, read, startTicker } from './ticker.ts'

describe('a JSON ticker of anybody', { concurrency: true }, () => {
  const cases: [string, string, string, string][] = [
    ['a member of a list', '{"a":[{"b":"64250.5"}]}', '#/a/0/b', '64250.5'],
    ['a number a double cannot hold', '{"p":12345678.123456785}', '#/p', '12345678.12345678'],
    ['trailing zeros and many places', '{"p":64250.500000000000000000001}', '#/p', '64250.5'],
    ['escapes of the pointer', '{"a/b":{"c~d":"1"}}', '#/a~1b/c~0d', '1'],
    ['an exponent with a sign and zeros', '{"p":6.42505E+04}', '#/p', '64250.5'],
    ['a small number with an exponent', '{"p":0.00642505e0000007}', '#/p', '64250.5'],
    ['a large one with an exponent below zero', '{"p":642505000000e-7}', '#/p', '64250.5'],
    [
      'digits a double cannot hold, with an exponent',
      '{"p":1.2345678123456785e7}',
      '#/p',
      '12345678.12345678',
    ],
    ['the least there is, with an exponent', '{"p":1e-8}', '#/p', '0.00000001'],
    ['the most there is, with an exponent', '{"p":9999999999999999e-8}', '#/p', '99999999.99999999'],
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
    ['a text with an exponent', '{"p":"6.4e4"}', '#/p', /"6\.4e4"/],
    ['more than there is, with an exponent', '{"p":1e8}', '#/p', /"100000000"/],
    ['nearly nothing, with an exponent', '{"p":4e-9}', '#/p', /its price is zero/],
    ['an exponent beyond every price', '{"p":1e999999}', '#/p', /"1e999999"/],
    ['one as far below', '{"p":1e-999999}', '#/p', /"1e-999999"/],
    ['one that is longer than a number', `{"p":1e${'9'.repeat(400)}}`, '#/p', /"1e9{20,}/],
    ['one below zero', '{"p":-6.4e4}', '#/p', /"-6\.4e4"/],
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

  test('a hundred thousand zeros, and an exponent, are read at once', async (t) => {
    const zeros = '0'.repeat(100_000)
    const { origin } = await startTicker(t, { body: `{"p":0.${zeros}642505e100005,"q":64250.5${zeros}e0}` })
    assert.match((await read(`${origin}/x#/p`)).warnings.join(), /e100005/)
    assert.deepEqual((await read(`${origin}/x#/q`)).observed?.price, quoted('64250.5', '').price)
  })

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
    ...['', 'Coinbase', 'static:', 'static:0.00', 'static:-5', 'toString', 'https://example.com/ticker'],
    ...['https://example.com/ticker#price', 'http://example.com/ticker#/price', 'file:///etc/passwd#/price'],
    ...['http://127.0.0.1.example.com/ticker#/price', 'http://10.0.0.1/ticker#/price'],
  ]
  for (const spec of refused) {
    test(`${JSON.stringify(spec)} is refused`, () => {
      const create = () => createFeed(spec, { clock: () => T0, warn: assert.fail })
      const words = spec.startsWith('http:') ? /needs https:/ : /^Unknown price feed /
      assert.throws(
        create,
        (error) => error instanceof Problem && error.code === 'usage' && words.test(error.message),
      )
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
    runHere(['--db', service.file, '--json', 'tick', '--price-feed', `${origin}/x#/p`], { machine })

  const early = await tick()
  assert.equal(early.code, 0)
  assert.match(early.err, /^\{"warnings":\["price feed 127\.0\.0\.1:\d+: HTTP 500"\]\}\n$/)
  assert.deepEqual(fired(early.out), { price_usd: null, executions_created: 0 })

  // Two units in a slot of eight hours: the first is due in the middle of the first four.
  setClock(plus(T0, 2 * HOUR_MS))
  const due = await tick()
  assert.equal(due.code, 0)
  assert.deepEqual(fired(due.out), { price_usd: null, executions_created: 1 })
  const [execution] = await allExecutions(service.store)
  assert.equal(execution?.firing.trigger, 'clock')
})

function fired(out: string): { price_usd: string | null; executions_created: number } {
  const { price_usd, executions_created } = JSON.parse(out)
  return { price_usd, executions_created }
}
