// Many requests at once: each execution to one poll, each report to one trade.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deliver } from '../../src/core/execution.ts'
import { openAgain } from '../support/database.ts'
import { fill, type Service, startService } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  DUE,
  executionsOf,
  ledgerOf,
  link,
  PRICE,
  plan,
  poll,
  sendFirst,
  windowsOf,
} from './steps.ts'

const twenty = <T>(make: (i: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: 20 }, (_, i) => make(i)))

/** Fires one tranche for each of `count` plans of one user, all pending. */
async function fire(service: Service, count: number): Promise<void> {
  await link(service, 'u')
  const ids = Array.from({ length: count }, (_, i) => `p${i}`)
  for (let from = 0; from < count; from += 64) {
    await Promise.all(ids.slice(from, from + 64).map((id) => plan(service, 'u', id)))
  }
  assert.equal((await service.tick(PRICE)).executionsCreated, count)
}

test('twenty polls at once hand out each execution once', async (t) => {
  const service = await startService(t)
  await fire(service, 60)
  const polls = await twenty(() => poll(service))
  const ids = polls.flatMap((due) => [...due.values()].flat()).map((one) => one.execution_id)
  assert.equal(ids.length, 60)
  assert.equal(new Set(ids).size, 60)
  await assertSound(service)
})

test('polls of two connections to one file, a few executions at a time, hand out each once', async (t) => {
  const service = await startService(t)
  await fire(service, 60)
  const second = await openAgain(service.file, service.now)
  t.after(() => second.close())
  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
  const pages = await Promise.all(
    [service.store, second].flatMap((store) =>
      Array.from({ length: 12 }, () => store.deliverDue(tenant, 3, deliver)),
    ),
  )
  const ids = pages.flatMap(({ executions }) => executions.map(({ executionId }) => executionId))
  assert.equal(new Set(ids).size, ids.length)
  assert.equal(ids.length, 60)
})

test('a poll hands out 500 at most, oldest first, and tells how many are left', async (t) => {
  const service = await startService(t)
  await fire(service, 503)
  const first = await service.call('GET', DUE)
  const second = await service.call('GET', DUE)
  const third = await service.call('GET', DUE)
  const seen = [first, second, third].map(({ body, headers }) => [
    body.length,
    headers.get('x-due-remaining'),
  ])
  assert.deepEqual(seen, [
    [500, '3'],
    [3, '0'],
    [0, '0'],
  ])
  const ids: string[] = [...first.body, ...second.body].map(({ execution_id }) => execution_id)
  assert.deepEqual(ids, [...new Set(ids)].sort())
  await assertSound(service)
})

test('twenty identical confirmations record one trade', async (t) => {
  const service = await startService(t)
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  const answers = await twenty(() => service.call('POST', confirmPath(id), fill('o', '9.00')))
  assert.ok(answers.every(({ status }) => status === 200))
  assert.equal(answers.filter(({ body }) => !('replayed' in body)).length, 1)
  assert.deepEqual((await windowsOf(service, 'p')).map(ledgerOf), ['0.00 9.00 0.00 open'])
  await assertSound(service)
})

test('of twenty different confirmations one is recorded, and all others are told which', async (t) => {
  const service = await startService(t)
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  const answers = await twenty((i) => service.call('POST', confirmPath(id), fill(`o${i}`, '9.00')))
  const [won, another] = answers.filter(({ status }) => status === 200)
  assert.ok(won)
  assert.equal(another, undefined)
  for (const { status, body } of answers.filter((answer) => answer !== won)) {
    assert.equal(status, 409)
    assert.ok(body.detail.includes(won.body.partner_order_id))
  }
  await assertSound(service)
})

test('an order id goes to one of twenty executions', async (t) => {
  const service = await startService(t)
  const names = Array.from({ length: 20 }, (_, i) => `p${i}`)
  const sent = await sendFirst(service, names)
  const answers = await twenty((i) =>
    service.call('POST', confirmPath(sent.get(`p${i}`) ?? ''), fill('o', '9.00')),
  )
  const won = answers.filter(({ status }) => status === 200)
  assert.equal(won.length, 1)
  for (const { status, body } of answers) {
    if (status === 200) continue
    assert.equal(status, 409)
    assert.ok(body.detail.includes(won[0]?.body.execution_id))
  }
  await assertSound(service)
})

test('confirmations that race a plan cancel are recorded or kept, never lost', async (t) => {
  const service = await startService(t)
  const names = Array.from({ length: 20 }, (_, i) => `p${i}`)
  const sent = await sendFirst(service, names)
  const [answers] = await Promise.all([
    twenty((i) => service.call('POST', confirmPath(sent.get(`p${i}`) ?? ''), fill(`o${i}`, '10.00'))),
    twenty((i) => plan(service, `p${i}`, `p${i}`, { status: 'cancelled' })),
  ])
  const late = await service.store.listLateFills({ after: null, limit: 100 })
  const keptFor = new Set(late.map(({ execution }) => execution.partnerPlanId))
  for (const [i, { status }] of answers.entries()) {
    const [execution] = await executionsOf(service, `p${i}`)
    assert.equal(execution?.status, status === 200 ? 'filled' : 'cancelled')
    assert.equal(keptFor.has(`p${i}`), status === 409)
  }
  await assertSound(service)
})

test('ticks, polls, confirmations and resets at once keep every ledger sound', async (t) => {
  const service = await startService(t)
  await link(service, 'u')
  const names = Array.from({ length: 10 }, (_, i) => `p${i}`)
  await Promise.all(names.map((name) => plan(service, 'u', name)))
  for (let round = 0; round < 8; round++) {
    service.advance(2 * 3_600_000)
    const work = names.map((name, i) => {
      if ((i + round) % 5 === 0)
        return plan(service, 'u', name, { amount_usd: round % 2 ? '60.00' : '75.00' })
      if ((i + round) % 7 === 0) return plan(service, 'u', name, { status: round % 2 ? 'paused' : 'active' })
      return pollAndFill(service)
    })
    await Promise.all([service.tick(round % 2 ? PRICE : '59000'), ...work])
  }
  await pollAndFill(service)
  const windows = (await Promise.all(names.map((name) => windowsOf(service, name)))).flat()
  assert.ok(windows.some(({ spent }) => spent > 0n))
  await assertSound(service)
})

async function pollAndFill(service: Service): Promise<void> {
  for (const one of [...(await poll(service)).values()].flat()) {
    const id = String(one.execution_id)
    const { status } = await service.call('POST', confirmPath(id), fill(`of ${id}`, String(one.amount_usd)))
    assert.equal(status, 200)
  }
}
