// A fill whose dollars and coins do not fit its price: as it was confirmed, and as it was adjusted.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Shell } from '../support/service.ts'
import {
  addPlan,
  confirmFirst,
  type Finding,
  MINUTE,
  ticks,
  warningsOf,
  withPartner,
  withPlan,
} from './warned.ts'

/** Whatever else a store may warn of: a server of a test has no standby. */
const ofPrice = async (shell: Shell): Promise<Finding[]> =>
  (await warningsOf(shell)).filter(({ kind }) => kind === 'trade_price')

for (const [what, btc, found] of [
  ['five percent', '0.00017500', false],
  ['a satoshi more than five percent', '0.00017502', true],
  ['a price in another unit', '0.16666666', true],
] as const) {
  test(`a fill whose dollars and coins are apart by ${what} at its price`, async (t) => {
    const { shell, key } = await withPlan(t)
    const filled = { usd_amount: '10.00', btc_amount: btc, execution_price: '60000' }
    const id = await confirmFirst(shell, key, filled)
    const warnings = (await ofPrice(shell)).map(({ kind, subject, mend }) => [kind, subject, mend])
    const warning = ['trade_price', `trade ${id}`, `tranche execution show ${id}`]
    assert.deepEqual(warnings, found ? [warning] : [])
    const right = ['--usd', '10', '--btc', '0.0001666', '--reason', 'a decimal point']
    await shell.tranche(['trade', 'adjust', id, ...right])
    assert.deepEqual(await ofPrice(shell), [], 'what is adjusted fits its price now')
  })
}

test('a fill that was adjusted to what no market had is warned of at once and found, until it is set right', async (t) => {
  const { shell, key } = await withPlan(t)
  const filled = { usd_amount: '10.00', btc_amount: '0.00016666', execution_price: '60000' }
  const id = await confirmFirst(shell, key, filled)
  const adjust = (usd: string, btc: string) =>
    shell.tranche(['trade', 'adjust', id, '--usd', usd, '--btc', btc, '--reason', 'typed by hand'])
  for (const [usd, btc] of [
    ['99999', '0.00016666'],
    ['1.00', '1000'],
  ] as const) {
    const { code, err } = await adjust(usd, btc)
    assert.equal(code, 0)
    assert.match(err, /^warning: .* does not fit the price it was confirmed at, 60000\.00/)
    const [found, ...more] = await ofPrice(shell)
    assert.deepEqual([found?.kind, found?.subject, more], ['trade_price', `trade ${id}`, []])
    assert.match(found?.message ?? '', /^is adjusted to .* at 60000\.00, which contradict each other/)
  }
  assert.equal((await adjust('9.00', '0.00015')).err, '')
  assert.deepEqual(await ofPrice(shell), [])
  assert.equal((await adjust('0', '0')).err, '')
  assert.deepEqual(await ofPrice(shell), [])
})

for (const [what, price, btc, found] of [
  ['in dollars for a satoshi', '0.00064', '15625', true],
  ['in cents', '6000000', '0.00000166', true],
  ['of twice the market', '120000', '0.00008333', true],
  ['of half the market', '30000', '0.00033333', true],
  ['of a little less than twice the market', '119000', '0.00008403', false],
] as const) {
  for (const byClock of [false, true])
    test(`a price ${what} that the amounts fit, of a tranche that ${byClock ? 'saw no price' : 'saw one'}`, async (t) => {
      const { shell, key } = byClock ? await firedByClock(t, '60000') : await withPlan(t)
      const fill = { usd_amount: '10.00', btc_amount: btc, execution_price: price }
      const id = await confirmFirst(shell, key, fill)
      const [first, ...more] = await ofPrice(shell)
      assert.deepEqual(more, [])
      assert.equal(first?.subject, found ? `trade ${id}` : undefined)
      if (!found) return
      assert.match(first?.message ?? '', /, while the market was at 60000\.00: ask the partner what unit/)
      const right = ['--usd', '10', '--reason', 'satoshis', '--btc']
      const adjusted = await shell.tranche(['trade', 'adjust', id, ...right, '0.00016666'])
      // Of a tranche that saw no price, only the check looks for one.
      assert.deepEqual([adjusted.code, byClock || adjusted.err], [0, byClock || ''])
      assert.deepEqual(await ofPrice(shell), [])
      const wrong = await shell.tranche(['trade', 'adjust', id, ...right, '16666'])
      if (!byClock) assert.match(wrong.err, /is as far from the price of the market/)
      assert.match((await ofPrice(shell))[0]?.message ?? '', /^is adjusted to 10\.00 USD for 16666/)
    })
}

test('where no price is known, a fill is held against what a bitcoin can cost at all', async (t) => {
  for (const [price, btc, found] of [
    ['99.99', '0.10001', true],
    ['100', '0.1', false],
    ['5000000', '0.000002', false],
    ['5000001', '0.000002', true],
  ] as const) {
    const { shell, key } = await firedByClock(t, null)
    const id = await confirmFirst(shell, key, {
      usd_amount: '10.00',
      btc_amount: btc,
      execution_price: price,
    })
    const [first, ...more] = await ofPrice(shell)
    assert.deepEqual([first?.subject, more], [found ? `trade ${id}` : undefined, []], price)
    if (found) assert.match(first?.message ?? '', /, which no market has had: ask the partner what unit/)
  }
})

/** A tranche that saw no price, because the feed is away; `before` is what it told in the morning. */
async function firedByClock(t: TestContext, before: string | null): Promise<{ shell: Shell; key: string }> {
  const { shell, key } = await withPartner(t)
  await ticks(shell, 1, before)
  await addPlan(shell, key, {})
  shell.advance(12 * 60 * MINUTE)
  await ticks(shell, 2, null)
  return { shell, key }
}
