// A fill whose dollars and coins do not fit its price: as it was confirmed, and as it was adjusted.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Shell } from '../support/shell.ts'
import { confirmFirst, type Finding, warningsOf, withPlan } from './warned.ts'

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
