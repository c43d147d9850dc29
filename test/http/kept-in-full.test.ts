// Late fills are recorded in full: with their fee and price, and dated when their report came.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatInstant } from '../../src/core/time.ts'
import { shell } from '../levers/steps.ts'
import { fill, type Service, startService } from '../support/service.ts'
import { assertSound, confirmPath, type Json, plan, sendFirst, succeed, TRADES } from './steps.ts'

const DAY = 86_400_000

const show = async (service: Service, id: string): Promise<Json & { trade: Json; adjustments: Json[] }> =>
  JSON.parse(await shell(service, ['--json', 'execution', 'show', id]))

/** The rows of an execution in a month, as the API and the export say them: they must be the same. */
async function rowsOf(
  service: Service,
  id: string,
  { month = '2026-01', env = 'live' } = {},
): Promise<Json[]> {
  const { trades } = await succeed(service, 'GET', `${TRADES}?month=${month}`)
  const exported: Json[] = JSON.parse(
    await shell(service, [
      ...['billing', 'export', '--month', month, '--env', env, '--report', 'trades', '--format', 'json'],
    ]),
  )
  const own = (row: Json) => row.execution_id === id
  const told: Json[] = trades.filter(own)
  assert.deepEqual(
    exported.filter(own).map(({ partner_slug: _, environment: __, ...row }) => row),
    told.map(({ partner_slug: _, environment: __, ...row }) => row),
  )
  return told
}

const month = (service: Service, name = '2026-01') =>
  succeed(service, 'GET', `/partner/v1/billing/monthly?month=${name}`)

for (const environment of ['live', 'test'] as const) {
  for (const status of ['filled', 'partial'] as const) {
    test(`${environment}: a late fill (${status}) without its time was made when its report came, not when it was accepted`, async (t) => {
      const service = await startService(t, { environment })
      const id = (await sendFirst(service, ['p'])).get('p') ?? ''
      await plan(service, 'p', 'p', { status: 'cancelled' })
      service.advance(DAY)
      const received = formatInstant(service.now())
      await service.call('POST', confirmPath(id), fill('o1', '9.00', status))
      service.advance(DAY)
      const recorded = formatInstant(service.now())
      const accepted = JSON.parse(await shell(service, ['--json', 'execution', 'accept-late', id]))
      const [row, more] = await rowsOf(service, id, { env: environment })
      assert.deepEqual([row?.executed_at, row?.recorded_at, more], [received, recorded, undefined])
      const { trade } = await show(service, id)
      assert.deepEqual([trade.executed_at, trade.recorded_at], [received, recorded])
      assert.equal(accepted.executed_at, received)
      const again = await succeed(service, 'POST', confirmPath(id), fill('o1', '9.00', status))
      assert.equal(again.replayed, true)
      await assertSound(service)
    })
  }
}

test('a fill without its time was made when it was recorded, and a failure has no time, wherever they are shown', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const sent = await sendFirst(service, ['p', 'q'])
  const [p, q] = [sent.get('p') ?? '', sent.get('q') ?? '']
  await succeed(service, 'POST', confirmPath(p), fill('o1', '9.00'))
  await succeed(service, 'POST', confirmPath(q), { partner_order_id: 'o2', status: 'failed' })
  const now = formatInstant(service.now())
  assert.equal((await rowsOf(service, p))[0]?.executed_at, now)
  assert.equal((await show(service, p)).trade.executed_at, now)
  assert.equal((await rowsOf(service, q))[0]?.executed_at, null)
  assert.equal((await show(service, q)).trade.executed_at, null)
})

test('a late fill that gives its time keeps it', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await plan(service, 'p', 'p', { status: 'cancelled' })
  const executed_at = '2026-01-05T00:00:07.000Z'
  await service.call('POST', confirmPath(id), { ...fill('o1', '9.00'), executed_at })
  service.advance(DAY)
  await shell(service, ['execution', 'accept-late', id])
  assert.equal((await rowsOf(service, id))[0]?.executed_at, executed_at)
  assert.equal((await show(service, id)).trade.executed_at, executed_at)
})

test('a further purchase brings its fee, its price and the time of its report', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await succeed(service, 'POST', confirmPath(id), {
    ...fill('o1', '5.00', 'partial'),
    partner_fee_usd: '0.05',
  })
  service.advance(DAY)
  const received = formatInstant(service.now())
  const second = { ...fill('o2', '3.00', 'partial'), partner_fee_usd: '0.07' }
  await service.call('POST', confirmPath(id), second)
  service.advance(DAY)
  await shell(service, ['execution', 'accept-late', id])
  const { volume_usd, partner_fees_usd } = await month(service)
  assert.deepEqual([volume_usd, partner_fees_usd], ['8.00', '0.12'])
  const users = await succeed(service, 'GET', '/partner/v1/billing/monthly/users?month=2026-01')
  assert.deepEqual([users.users[0]?.partner_fees_usd, users.totals.partner_fees_usd], ['0.12', '0.12'])
  const [, row] = await rowsOf(service, id)
  assert.deepEqual(
    [row?.status, row?.partner_order_id, row?.usd_amount, row?.partner_fee_usd, row?.executed_at],
    ['adjustment', 'o2', '3.00', '0.07', received],
  )
  assert.equal(Number(row?.execution_price), Number(second.execution_price))
  const shown = await show(service, id)
  const [adjustment] = shown.adjustments
  assert.deepEqual(
    [adjustment?.partner_fee_usd, adjustment?.executed_at, shown.adjusted_partner_fee_usd],
    ['0.07', received, '0.12'],
  )
  assert.equal(Number(adjustment?.execution_price), Number(second.execution_price))
  const totals = await shell(service, [
    ...['billing', 'export', '--month', '2026-01', '--report', 'trades', '--format', 'json', '--totals'],
  ])
  assert.equal(JSON.parse(totals).at(-1).partner_fee_usd, '0.12')
  await shell(service, ['billing', 'reconcile', '--month', '2026-01'])
  await assertSound(service)
})

test('another report of the same order replaces its fee, and one without a fee leaves it', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  const said = fill('o1', '5.00', 'partial')
  await succeed(service, 'POST', confirmPath(id), { ...said, partner_fee_usd: '0.05' })
  const fees = async () => (await month(service)).partner_fees_usd
  const accept = async (report: Json) => {
    service.advance(60_000)
    assert.equal((await service.call('POST', confirmPath(id), report)).status, 409)
    await shell(service, ['execution', 'accept-late', id])
    await shell(service, ['billing', 'reconcile', '--month', '2026-01'])
    return fees()
  }
  assert.equal(await accept({ ...fill('o1', '6.00'), partner_fee_usd: '0.02' }), '0.02')
  assert.equal(await accept(fill('o1', '7.00')), '0.02')
  assert.equal(await accept({ ...fill('o2', '1.00'), partner_fee_usd: '0.01' }), '0.03')
  assert.equal(await accept({ ...fill('o1', '7.00'), partner_fee_usd: '0.09' }), '0.10', 'the fee alone')
  const rows = await rowsOf(service, id)
  assert.deepEqual(
    rows.map((row) => [row.usd_amount, row.partner_fee_usd]),
    [
      ['5.00', '0.05'],
      ['1.00', '-0.03'],
      ['1.00', null],
      ['1.00', '0.01'],
      ['0.00', '0.07'],
    ],
  )
  // What an operator says an execution comes to leaves the fees as they are.
  await shell(service, [
    'trade',
    'adjust',
    id,
    '--usd',
    '4',
    '--btc',
    '0.0001',
    '--reason',
    'the venue says so',
  ])
  assert.equal(await fees(), '0.10')
  assert.equal((await rowsOf(service, id)).at(-1)?.partner_fee_usd, null)
  await shell(service, ['billing', 'reconcile', '--month', '2026-01'])
  await assertSound(service)
})

test('a purchase after a failure, accepted a month later, is billed in that month with its fee', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await succeed(service, 'POST', confirmPath(id), { partner_order_id: 'o1', status: 'failed' })
  const received = formatInstant(service.now())
  await service.call('POST', confirmPath(id), { ...fill('o2', '4.00'), partner_fee_usd: '0.04' })
  service.advance(30 * DAY)
  await shell(service, ['execution', 'accept-late', id])
  assert.deepEqual(
    [(await month(service)).partner_fees_usd, (await month(service, '2026-02')).partner_fees_usd],
    ['0.00', '0.04'],
  )
  const [row] = await rowsOf(service, id, { month: '2026-02' })
  assert.deepEqual([row?.status, row?.executed_at], ['adjustment', received])
  await shell(service, ['billing', 'reconcile', '--month', '2026-02'])
  await assertSound(service)
})
