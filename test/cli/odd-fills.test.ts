// Odd fills: made before their execution, or at no price the market had, and what check, status and an advance say of
// them.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { formatInstant, type Instant, plus } from '../../src/core/time.ts'
import { PLAN, type Shell, USER } from '../support/service.ts'
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

const FILL = { usd_amount: '10.00', btc_amount: '0.00016666', execution_price: '60000' }
/** When the first tranche of a shell with a plan fired: at the first of its ten passes. */
const firedAt = ({ machine }: Shell): Instant => plus(machine.clock(), -9 * MINUTE)
const isEarly = ({ kind }: Finding): boolean => kind === 'fill_early'
const json = async (shell: Shell, ...argv: string[]) => {
  const { code, out, err } = await shell.tranche([...argv, '--json'])
  assert.deepEqual([code, err], [0, ''], out)
  return JSON.parse(out)
}

for (const [what, earlierMs, found] of [
  ['ten minutes', 10 * MINUTE, false],
  ['a millisecond more than ten minutes', 10 * MINUTE + 1, true],
  ['a year', 365 * 24 * 60 * MINUTE, true],
] as const) {
  test(`a fill of ${what} before its execution was created is recorded, and ${found ? '' : 'not '}warned of`, async (t) => {
    const { shell, key } = await withPlan(t)
    const executed_at = formatInstant(plus(firedAt(shell), -earlierMs))
    const id = await confirmFirst(shell, key, { ...FILL, executed_at })
    assert.equal((await json(shell, 'execution', 'show', id)).status, 'filled')
    const seen = (await warningsOf(shell)).filter(isEarly)
    const next = `tranche execution show ${id}`
    assert.deepEqual(
      seen.map(({ subject, mend }) => [subject, mend]),
      found ? [[`acme live execution ${id}`, next]] : [],
    )
    const status = await json(shell, 'status')
    assert.equal(status.findings.filter(isEarly).length, seen.length)
    if (!found) return
    assert.ok(seen[0]?.message.startsWith(`its fill is reported as made ${executed_at}, `))
    assert.match(
      (await shell.tranche(['status'])).out,
      /^warning {2}fill_early {2}acme live execution exec_/m,
    )
    // It stays for thirty days.
    shell.advance(30 * 24 * 60 * MINUTE)
    assert.equal((await warningsOf(shell)).filter(isEarly).length, 1)
    shell.advance(1)
    assert.deepEqual((await warningsOf(shell)).filter(isEarly), [])
  })
}

test('a late fill from before its execution is warned of while it waits, and as it was accepted', async (t) => {
  const { shell, key } = await withPlan(t)
  const due = JSON.parse((await shell.call('GET', '/partner/v1/executions/due', key)).text)
  const id = String(due[0].execution_id)
  await shell.tranche(['execution', 'cancel', id, '--reason', 'the venue is closed'])
  const executed_at = formatInstant(plus(firedAt(shell), -60 * MINUTE))
  const body = { partner_order_id: 'o1', status: 'filled', ...FILL, executed_at }
  const { status } = await shell.call(
    'POST',
    `/partner/v1/executions/${id}/confirm`,
    key,
    JSON.stringify(body),
  )
  assert.equal(status, 409)
  const early = async () => (await warningsOf(shell)).filter(isEarly).map(({ subject }) => subject)
  assert.deepEqual(await early(), [`acme live execution ${id}`])
  assert.equal((await shell.tranche(['execution', 'accept-late', id, '--reason', 'it was bought'])).code, 0)
  assert.deepEqual(await early(), [`acme live execution ${id}`])
})

for (const status of ['failed', 'cancelled'])
  test(`a report that an execution ${status} bought nothing, however early it is dated`, async (t) => {
    const { shell, key } = await withPlan(t)
    const executed_at = formatInstant(plus(firedAt(shell), -60 * MINUTE))
    const id = await confirmFirst(shell, key, { status, executed_at })
    assert.equal((await json(shell, 'execution', 'show', id)).status, status)
    assert.deepEqual((await warningsOf(shell)).filter(isEarly), [])
  })

test('an early fill that was adjusted to nothing is named no more, and again once it is put back', async (t) => {
  const { shell, key } = await withPlan(t)
  const executed_at = formatInstant(plus(firedAt(shell), -60 * MINUTE))
  const id = await confirmFirst(shell, key, { ...FILL, executed_at })
  const early = async () => (await warningsOf(shell)).filter(isEarly).length
  const adjust = async (usd: string, btc: string) => {
    const argv = ['--usd', usd, '--btc', btc, '--reason', 'another order']
    assert.equal((await shell.tranche(['trade', 'adjust', id, ...argv])).code, 0)
    return early()
  }
  assert.equal(await early(), 1)
  assert.equal(await adjust('0', '0'), 0)
  assert.equal(await adjust('9', '0.00015'), 1)
})

test('odd fills of a test environment are said where somebody looks for them, and nowhere else', async (t) => {
  const { shell } = await withPlan(t)
  const { out } = await shell.tranche(['key', 'create', 'acme', '--env', 'test'])
  const key = out.trim()
  for (const [path, body] of [
    ['users', USER],
    ['plans', { ...PLAN, partner_plan_id: 'sand' }],
  ] as const)
    assert.equal((await shell.call('POST', `/partner/v1/${path}`, key, JSON.stringify(body))).status, 200)
  await ticks(shell, 1)
  const before = [await json(shell, 'check'), (await json(shell, 'status')).findings]
  const executed_at = formatInstant(plus(shell.machine.clock(), -60 * MINUTE))
  const id = await confirmFirst(shell, key, { ...FILL, btc_amount: '15625', executed_at })
  assert.deepEqual([await json(shell, 'check'), (await json(shell, 'status')).findings], before, 'no alarm')

  const told = (findings: Finding[]) => findings.map(({ kind, subject }) => [kind, subject])
  const both = [
    ['fill_early', `acme test execution ${id}`],
    ['trade_price', `trade ${id}`],
  ]
  assert.deepEqual(told((await json(shell, 'check', '--env', 'test')).findings), both)
  assert.deepEqual(told((await json(shell, 'status', '--env', 'test')).findings), both)
  assert.match(
    (await shell.tranche(['status', '--env', 'test'])).out,
    /^warning {2}trade_price {2}trade exec_/m,
  )
  assert.equal((await shell.tranche(['check', '--env', 'test', '--strict'])).code, 3)
  assert.equal((await shell.tranche(['check', '--strict'])).code, before[0].findings.length === 0 ? 0 : 3)

  // A sandbox that is ahead has times that no venue has: what is left is the price.
  const advance = ['sandbox', 'advance', 'acme', '1h', '--price', '60000']
  const { code, err } = await shell.tranche(advance)
  assert.equal(code, 0)
  assert.match(err, /^warning: 1 fill of this sandbox has odd figures; run tranche .*check --env test$/m)
  const again = await shell.tranche([...advance, '--json'])
  assert.deepEqual(told(JSON.parse(again.out).findings), both.slice(1))
})

test('status names the command that shows what is in test environments, once there is anything', async (t) => {
  const { shell } = await withPlan(t)
  assert.equal((await json(shell, 'status')).test.show, null)
  assert.doesNotMatch((await shell.tranche(['status'])).out, /--env test/)
  const { out } = await shell.tranche(['key', 'create', 'acme', '--env', 'test'])
  await shell.call('POST', '/partner/v1/users', out.trim(), JSON.stringify(USER))
  await shell.call('POST', '/partner/v1/plans', out.trim(), JSON.stringify(PLAN))
  const { show } = (await json(shell, 'status')).test
  assert.match(show, /^tranche .*status --env test$/)
  const words = (await shell.tranche(['status'])).out
  assert.ok(words.includes(`1 plan active, 0 executions open, 0 due: ${show}`), words)
  const own = await json(shell, 'status', '--env', 'test')
  assert.deepEqual([own.environment, own.plans.active, own.findings], ['test', 1, []])
  assert.match((await shell.tranche(['status', '--env', 'test'])).out, /^plans +1 active, 0 paused/m)
  assert.equal((await shell.tranche(['status', '--env', 'test', '--watch'])).code, 2)
})

// A fill whose dollars and coins do not fit its price: as it was confirmed, and as it was adjusted.

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
