// A fill that was recorded wrongly is set right by an entry of its own; ledger, check and billing follow.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { assertSound, confirmPath, ledgerOf, sendFirst, succeed, windowsOf } from '../http/steps.ts'
import { fill, type Service, startService } from '../support/service.ts'
import { adjustTo, command, shell } from './steps.ts'

/** A fill of 8.00 USD and 0.001 BTC out of a reservation of 10.00. */
async function filled(service: Service): Promise<string> {
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await succeed(service, 'POST', confirmPath(id), fill('o1', '8.00', 'partial'))
  return id
}
const ledgers = async (service: Service) => (await windowsOf(service, 'p')).map(ledgerOf)
const monthly = (service: Service, month = '2026-01') =>
  succeed(service, 'GET', `/partner/v1/billing/monthly?month=${month}`)
const users = (service: Service, month = '2026-01') =>
  succeed(service, 'GET', `/partner/v1/billing/monthly/users?month=${month}`)

for (const status of ['failed', 'cancelled']) {
  test(`a report of ${status} that was in truth a fill begins at nothing`, async (t) => {
    const service = await startService(t)
    const id = (await sendFirst(service, ['p'])).get('p') ?? ''
    await succeed(service, 'POST', confirmPath(id), { partner_order_id: 'o1', status })
    assert.equal((await adjustTo(service, id, '10.00', '0.0002')).code, 0)
    assert.deepEqual(await ledgers(service), ['0.00 10.00 0.00 open'])
    const january = await monthly(service)
    assert.deepEqual(
      [january.trade_count, january.volume_usd, january.volume_btc],
      [0, '10.00', '0.00020000'],
    )
    const csv = await shell(service, [
      'billing',
      'export',
      '--month',
      '2026-01',
      '--env',
      'test',
      '--report',
      'trades',
    ])
    assert.match(csv, new RegExp(`,o1,${status},,,,,,\r\n.*,o1,adjustment,10\\.00,0\\.00020000,,,,wrong`))
    await shell(service, ['billing', 'reconcile', '--month', '2026-01'])
    await assertSound(service)
  })
}

test('what is refused changes nothing and is not audited', async (t) => {
  const service = await startService(t)
  const id = await filled(service)
  const audited = async () => (await service.store.listAudit({ after: null, limit: 100 })).length
  const before = [await ledgers(service), await audited(), await monthly(service)]
  for (const [dollars, btc, code] of [
    ['8.00', '0.001', 5],
    ['1000000000.01', '0.001', 5],
    ['0', '0.001', 5],
    ['8.00', '0', 5],
    ['8.00', '21000000.00000001', 5],
    ['-1', '0.001', 2],
    ['1e3', '0.001', 2],
    ['8.000000001', '0.001', 2],
  ] as const) {
    assert.equal((await adjustTo(service, id, dollars, btc)).code, code, `${dollars} ${btc}`)
  }
  for (const reason of ['', '  ', 'two\nlines', 'x'.repeat(2001)]) {
    const argv = ['trade', 'adjust', id, '--usd', '1', '--btc', '0.001', '--reason', reason]
    assert.equal((await command(service, argv)).code, 2)
  }
  assert.deepEqual([await ledgers(service), await audited(), await monthly(service)], before)
})

test('billing counts the difference in the month it was made, and a trade only once', async (t) => {
  const service = await startService(t)
  const id = await filled(service)
  await adjustTo(service, id, '6.00', '0.0008')
  const january = await monthly(service)
  assert.deepEqual(
    [january.trade_count, january.volume_usd, january.volume_btc, january.average_price_usd],
    [1, '6.00', '0.00080000', '7500.00'],
  )
  service.setClock(Date.UTC(2026, 1, 3) as ReturnType<Service['now']>)
  await service.tick()
  const final = await monthly(service)
  await adjustTo(service, id, '2.00', '0.0002')
  const february = await monthly(service, '2026-02')
  assert.deepEqual(
    [february.trade_count, february.active_users, february.active_plans, february.volume_usd],
    [0, 0, 0, '-4.00'],
  )
  assert.deepEqual(
    [february.volume_btc, february.average_price_usd, february.total_fee_usd],
    ['-0.00060000', null, '0.00'],
  )
  const { users: lines, totals } = await users(service, '2026-02')
  assert.deepEqual(lines, [
    {
      partner_user_id: 'p',
      trade_count: 0,
      volume_usd: '-4.00',
      volume_btc: '-0.00060000',
      average_price_usd: null,
      partner_fees_usd: '0.00',
      fee_usd: '0.00',
    },
  ])
  assert.equal(totals.volume_usd, '-4.00')
  assert.deepEqual(await monthly(service), final, 'January stays what it was')
  const proof = JSON.parse(await shell(service, ['--json', 'billing', 'reconcile', '--month', '2026-02']))
  assert.deepEqual([proof.ok, proof.trades], [true, 0])
})

const TAMPERINGS: [what: string, sql: string, kinds: string[]][] = [
  ['dollars', 'update adjustments set usd_amount = -1', ['window_spent', 'adjustment_changed']],
  ['coins', 'update adjustments set btc_amount = -1', ['adjustment_changed']],
  ['the reason', "update adjustments set reason = 'another'", ['adjustment_changed']],
  ['its time', 'update adjustments set recorded_at = 0', ['adjustment_place', 'adjustment_changed']],
  ['its user', 'update adjustments set user_id = 2', ['adjustment_place']],
  ['its removal', 'delete from adjustments', ['window_spent']],
  [
    'the trade under it',
    'update trades set usd_amount = 100000000',
    ['window_spent', 'adjustment_amount', 'trade_changed'],
  ],
]
for (const [what, sql, kinds] of TAMPERINGS) {
  test(`check notices tampering: ${what}`, async (t) => {
    const service = await startService(t)
    const id = await filled(service)
    await sendFirst(service, ['q'])
    await adjustTo(service, id, '5.00', '0.0005')
    const db = openFile(service.file)
    assert.throws(() => db.exec(sql.replace('trades', 'adjustments')), /append-only|no such/)
    db.exec(`drop trigger adjustments_keep; drop trigger adjustments_stay; ${sql}`)
    db.close()
    const { code, out } = await command(service, ['--json', 'check'])
    assert.equal(code, 3)
    type Found = { kind: string; level: string }
    const findings: Found[] = JSON.parse(out).findings
    const found = findings.filter(({ level }) => level === 'error').map(({ kind }) => kind)
    assert.deepEqual(found.toSorted(), kinds.toSorted())
    assert.equal(
      (await command(service, ['billing', 'reconcile', '--month', '2026-01'])).code,
      3,
      'and so does reconcile',
    )
  })
}
