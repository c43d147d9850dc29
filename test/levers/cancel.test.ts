// An instruction nobody will ever confirm is ended by an operator, and its money is free again.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatUsd } from '../../src/core/money.ts'
import { DAY_MS } from '../../src/core/time.ts'
import {
  assertSound,
  confirmPath,
  executionsOf,
  type Json,
  ledgerOf,
  PRICE,
  poll,
  sendFirst,
  succeed,
  windowsOf,
} from '../http/steps.ts'
import { fill, type Service, startService } from '../support/service.ts'
import { command, shell } from './steps.ts'

const cancel = (service: Service, id: string) =>
  command(service, ['execution', 'cancel', id, '--reason', 'nobody there'])
const confirm = (service: Service, id: string, body: Json) => service.call('POST', confirmPath(id), body)
const sent = async (service: Service) => (await sendFirst(service, ['p'])).get('p') ?? ''
const ledgers = async (service: Service) => (await windowsOf(service, 'p')).map(ledgerOf)

test('the reservation goes back to an open window, which spends it again', async (t) => {
  const service = await startService(t)
  const id = await sent(service)
  assert.deepEqual(await ledgers(service), ['10.00 0.00 0.00 open'])
  assert.equal((await cancel(service, id)).code, 0)
  assert.deepEqual(await ledgers(service), ['0.00 0.00 0.00 open'])
  await assertSound(service)
  service.advance(6 * 60_000)
  assert.equal((await poll(service)).size, 0, 'it is no longer delivered')
  service.advance(DAY_MS - 7 * 60_000)
  await service.tick(PRICE)
  assert.deepEqual(await ledgers(service), ['60.00 0.00 0.00 open'], 'the whole budget is out')
  await assertSound(service)
})

test('a report that comes later is kept, answered 409, and accepted by an operator', async (t) => {
  const service = await startService(t)
  const id = await sent(service)
  await cancel(service, id)
  const late = await confirm(service, id, fill('o1', '9.00'))
  assert.equal(late.status, 409)
  assert.match(late.body.detail, /was cancelled before it was confirmed/)
  assert.equal(JSON.parse(await shell(service, ['--json', 'execution', 'late-fills'])).length, 1)
  await shell(service, ['execution', 'accept-late', id])
  assert.equal((await confirm(service, id, fill('o1', '9.00'))).body.replayed, true)
  assert.deepEqual(await ledgers(service), ['0.00 9.00 0.00 open'])
  const shown = JSON.parse(await shell(service, ['--json', 'execution', 'show', id]))
  assert.deepEqual([shown.status, shown.cancel_reason], ['filled', 'nobody there'])
  await assertSound(service)
})

test('a late fill whose money the window has spent again is excess, until something else goes back', async (t) => {
  const service = await startService(t)
  const id = await sent(service)
  await cancel(service, id)
  assert.equal((await confirm(service, id, fill('o1', '9.00'))).status, 409)
  service.advance(DAY_MS - 60_000)
  await service.tick(PRICE)
  assert.deepEqual(await ledgers(service), ['60.00 0.00 0.00 open'])
  await shell(service, ['execution', 'accept-late', id])
  const excess = async () => (await windowsOf(service, 'p')).map((window) => formatUsd(window.excess))
  assert.deepEqual([await ledgers(service), await excess()], [['60.00 0.00 0.00 open'], ['9.00']])
  await assertSound(service)
  // What took its place ends unfilled: its money covers the excess first.
  const [again] = (await executionsOf(service, 'p')).filter(({ status }) => status === 'pending')
  await cancel(service, again?.executionId ?? '')
  assert.deepEqual([await ledgers(service), await excess()], [['0.00 9.00 0.00 open'], ['0.00']])
  await assertSound(service)
})

test('one that has an outcome is not cancelled, and nothing is audited', async (t) => {
  const service = await startService(t)
  const id = await sent(service)
  await succeed(service, 'POST', confirmPath(id), fill('o1', '4.00', 'partial'))
  const before = await ledgers(service)
  const audited = async () => (await service.store.listAudit({ after: null, limit: 100 })).length
  const lines = await audited()
  const refused = await cancel(service, id)
  assert.equal(refused.code, 5)
  assert.match(refused.err, /recorded as partial/)
  assert.deepEqual([await ledgers(service), await audited()], [before, lines])
})
