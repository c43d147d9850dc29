// A held partner buys nothing more, and is answered as ever.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR_MS } from '../../src/core/time.ts'
import { startMonitored } from '../http/monitored.ts'
import { assertSound, confirmPath, link, PRICE, plan, poll, sendFirst, succeed } from '../http/steps.ts'
import { fill, type Service, startService } from '../support/service.ts'
import { shell } from './steps.ts'

const partner = (service: Service, verb: string, slug = 'acme') => shell(service, ['partner', verb, slug])
const fired = async (service: Service) => (await service.tick(PRICE)).executionsCreated

test('polls, confirmations, plans and billing go on; tranches do not', async (t) => {
  const service = await startService(t)
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await partner(service, 'hold')
  service.advance(9 * HOUR_MS)
  assert.equal((await service.tick('1')).plansEvaluated, 0, 'nor does a pass look at it')
  assert.equal((await succeed(service, 'GET', '/partner/v1/me')).status, 'active')
  assert.equal((await poll(service)).get('p')?.[0]?.execution_id, id, 'what was out is delivered again')
  await succeed(service, 'POST', confirmPath(id), fill('o1', '10.00'))
  await link(service, 'q')
  await plan(service, 'q', 'q')
  await plan(service, 'p', 'p', { status: 'paused' })
  await plan(service, 'p', 'p', { status: 'active', amount_usd: '90.00' })
  assert.equal(await fired(service), 0, 'nor does a plan that is new, woken or changed fire')
  const month = await succeed(service, 'GET', '/partner/v1/billing/monthly?month=2026-01')
  assert.equal(month.trade_count, 1)
  await partner(service, 'release')
  assert.equal(await fired(service), 2)
  await assertSound(service)
})

test('a hold shows in status and in the metrics until it is released', async (t) => {
  const service = await startMonitored(t)
  await service.issueKey('bolt', 'test')
  const seen = async () => {
    const { partners, by_partner } = JSON.parse(await shell(service, ['status', '--json']))
    const words = (await shell(service, ['status'])).match(/^partners +(.*)$/m)?.[1]
    const { value } = await service.samples()
    const held = (slug: string) => value(`tranche_partner_held{partner="${slug}"}`)
    return [
      partners.held,
      by_partner.map((one: { held: boolean }) => one.held),
      words,
      held('acme'),
      held('bolt'),
    ]
  }
  assert.deepEqual(await seen(), [0, [false, false], '2 active, 0 disabled', 0, 0])
  await partner(service, 'hold')
  assert.deepEqual(await seen(), [1, [true, false], '2 active, 0 disabled, 1 held (acme)', 1, 0])
  await partner(service, 'release')
  assert.deepEqual(await seen(), [0, [false, false], '2 active, 0 disabled', 0, 0])
})
