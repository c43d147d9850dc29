// Fills that were made before their execution was there, and what check, status and an advance say of odd fills in the
// environment they are in.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatInstant, type Instant, plus } from '../../src/core/time.ts'
import type { Shell } from '../support/service.ts'
import { PLAN, USER } from '../support/service.ts'
import { confirmFirst, type Finding, MINUTE, ticks, warningsOf, withPlan } from './warned.ts'

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
