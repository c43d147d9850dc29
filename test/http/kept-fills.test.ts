// Reports of real purchases that break a rule: the answer refuses them, they are kept, and an operator records them.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatUsd } from '../../src/core/money.ts'
import { command, shell } from '../levers/steps.ts'
import { fill, startService } from '../support/service.ts'
import { lateFills, nextPending, waiting } from './kept-steps.ts'
import { assertSound, confirmPath, type Json, poll, sendFirst, succeed, windowsOf } from './steps.ts'

const FAILED = { partner_order_id: 'o1', status: 'failed' }
const CANCELLED = { partner_order_id: 'o1', status: 'cancelled' }

type Case = {
  /** What is confirmed first. */
  first: Json[]
  said: Json
  answer: [status: number, detail: RegExp]
  reason: string
  /** What accepting it leads to: the window's spent and excess dollars, the month's volume, and its trades. */
  accepted: [spent: string, excess: string, volume: string, trades: number]
}

// Each execution has 10.00 reserved, of a window of 60.00.
const REFUSED: Record<string, Case> = {
  'above the reservation': {
    first: [],
    said: fill('o1', '14.00'),
    answer: [400, /^usd_amount exceeds the reserved amount: reserved 10\.00, received 14\.00\.$/],
    reason: 'amount_over_reservation',
    accepted: ['10.00', '4.00', '14.00', 1],
  },
  'filled after failed': {
    first: [FAILED],
    said: fill('o1', '9.00'),
    answer: [409, /^Execution already confirmed with status failed and partner_order_id o1;/],
    reason: 'execution_recorded',
    accepted: ['9.00', '0.00', '9.00', 0],
  },
  'filled after failed, by another order, above the reservation': {
    first: [FAILED],
    said: fill('o2', '12.50'),
    answer: [409, /^Execution already confirmed with status failed/],
    reason: 'execution_recorded',
    accepted: ['10.00', '2.50', '12.50', 0],
  },
  'filled after its own cancellation': {
    first: [CANCELLED],
    said: fill('o1', '9.00'),
    answer: [409, /^Execution already confirmed with status cancelled/],
    reason: 'execution_recorded',
    accepted: ['9.00', '0.00', '9.00', 0],
  },
  'filled after partial': {
    first: [fill('o1', '4.00', 'partial')],
    said: fill('o1', '10.00'),
    answer: [409, /^Execution already confirmed with status partial/],
    reason: 'execution_recorded',
    accepted: ['10.00', '0.00', '10.00', 1],
  },
  'other values after filled': {
    first: [fill('o1', '10.00')],
    said: fill('o1', '9.50'),
    answer: [409, /^Execution already confirmed with status filled/],
    reason: 'execution_recorded',
    accepted: ['9.50', '0.00', '9.50', 1],
  },
  'a further purchase after filled': {
    first: [fill('o1', '10.00')],
    said: fill('o2', '6.00'),
    answer: [409, /^Execution already confirmed with status filled/],
    reason: 'execution_recorded',
    accepted: ['10.00', '6.00', '16.00', 1],
  },
}

for (const [what, { first, said, answer, reason, accepted }] of Object.entries(REFUSED)) {
  test(`${what}: refused as ever, kept once, and recorded to the cent once accepted`, async (t) => {
    const service = await startService(t, { environment: 'live' })
    const id = (await sendFirst(service, ['p'])).get('p') ?? ''
    for (const body of first) await succeed(service, 'POST', confirmPath(id), body)
    for (let time = 0; time < 3; time++) {
      const refused = await service.call('POST', confirmPath(id), said)
      assert.equal(refused.status, answer[0])
      assert.match(refused.body.detail, answer[1])
    }
    const listed = await lateFills(service)
    assert.deepEqual(
      listed.map((row) => [row.execution_id, row.partner_order_id, row.reason, row.decided_at]),
      [[id, said.partner_order_id, reason, null]],
    )
    assert.deepEqual(await waiting(service), [1, 1])
    await assertSound(service)

    await shell(service, ['execution', 'accept-late', id])
    const [window] = await windowsOf(service, 'p')
    const month = await succeed(service, 'GET', '/partner/v1/billing/monthly?month=2026-01')
    assert.deepEqual(
      [formatUsd(window?.spent ?? (0n as never)), formatUsd(window?.excess ?? (0n as never))],
      accepted.slice(0, 2),
    )
    assert.deepEqual([month.volume_usd, month.trade_count], accepted.slice(2))
    await shell(service, ['billing', 'reconcile', '--month', '2026-01'])
    assert.deepEqual(await waiting(service), [0, 0])
    assert.equal((await succeed(service, 'POST', confirmPath(id), said)).replayed, true)
    assert.equal((await command(service, ['execution', 'accept-late', id])).code, 5)
    await assertSound(service)
  })
}

test('an order another execution holds: kept, and never recorded twice', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const sent = await sendFirst(service, ['p', 'q'])
  const [p, q] = [sent.get('p') ?? '', sent.get('q') ?? '']
  await succeed(service, 'POST', confirmPath(p), fill('o1', '10.00'))
  const taken = await service.call('POST', confirmPath(q), fill('o1', '10.00'))
  assert.equal(taken.status, 409)
  assert.match(taken.body.detail, new RegExp(`o1 is already recorded for execution ${p}`))
  assert.equal((await lateFills(service))[0]?.reason, 'order_id_taken')
  assert.equal((await command(service, ['execution', 'accept-late', q])).code, 5)
  await shell(service, ['execution', 'dismiss-late', q, '--reason', 'the same purchase'])
  assert.deepEqual(await waiting(service), [0, 0])
  await succeed(service, 'POST', confirmPath(q), fill('o2', '10.00'))
  await assertSound(service)
})

test('the order of an accepted further purchase is held like that of a trade', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const sent = await sendFirst(service, ['p', 'q'])
  const [p, q] = [sent.get('p') ?? '', sent.get('q') ?? '']
  await succeed(service, 'POST', confirmPath(p), fill('o1', '10.00'))
  await service.call('POST', confirmPath(p), fill('o2', '5.00'))
  await shell(service, ['execution', 'accept-late', p])
  const taken = await service.call('POST', confirmPath(q), fill('o2', '5.00'))
  assert.equal(taken.status, 409)
  assert.match(taken.body.detail, new RegExp(`o2 is already recorded for execution ${p}`))
  // Another version of it tells of no purchase beside it.
  await service.call('POST', confirmPath(p), fill('o2', '6.00'))
  const again = await command(service, ['execution', 'accept-late', p])
  assert.equal(again.code, 5)
  assert.match(again.err, /recorded already as a further purchase: say with "trade adjust"/)
  await shell(service, ['trade', 'adjust', p, '--usd', '16', '--btc', '0.0003', '--reason', 'o2 was 6.00'])
  assert.deepEqual(await waiting(service), [1, 1], 'what q reported still waits')
  await assertSound(service)
})

test('a report of failure is refused and not kept', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await succeed(service, 'POST', confirmPath(id), fill('o1', '10.00'))
  assert.equal((await service.call('POST', confirmPath(id), FAILED)).status, 409)
  const pending = await nextPending(service)
  assert.equal(
    (await service.call('POST', confirmPath(pending), { ...FAILED, partner_order_id: 'o2' })).status,
    409,
  )
  assert.deepEqual(await lateFills(service), [])
  assert.equal((await poll(service)).size, 1, 'it is handed out as ever')
})

test('accept-late leaves what says something else to be decided, and each end is named', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await succeed(service, 'POST', confirmPath(id), { ...fill('o1', '9.00'), partner_fee_usd: '0.10' })
  for (const [order, usd, fee] of [
    ['o2', '3.00', '0.16'],
    ['o2', '3.00', '0.05'],
    ['o2', '4.00', '0.05'],
    ['o1', '9.00', undefined],
  ] as const)
    await service.call('POST', confirmPath(id), { ...fill(order, usd), partner_fee_usd: fee })
  const accept = (report: string) => command(service, ['execution', 'accept-late', id, '--report', report])
  const first = await accept('1')
  assert.equal(first.code, 0)
  assert.match(first.err, /3 late fills of this execution still wait for a decision \(report 2, 3, 4\)/)
  assert.match(first.err, new RegExp(`execution dismiss-late ${id} --report 2 --reason WHY`))
  for (const report of ['2', '3']) {
    const further = await accept(report)
    assert.equal(further.code, 5)
    assert.match(further.err, /o2 is recorded already as a further purchase: say with "trade adjust"/)
    assert.match(further.err, new RegExp(`end report ${report} with "execution dismiss-late"`))
  }
  const known = await accept('4')
  assert.equal(known.code, 5)
  assert.match(
    known.err,
    /o1 is on record with 9\.00 USD .*nothing is left to record: end report 4 with "execution/,
  )
  const waiting = async () => (await lateFills(service)).filter((row) => row.decided_at === null).length
  assert.equal(await waiting(), 3)
  const dismiss = ['execution', 'dismiss-late', id, '--reason', 'an error of typing']
  const several = await command(service, dismiss)
  assert.deepEqual([several.code, several.out], [5, ''])
  assert.match(
    several.err,
    /has several late fills to decide on \(2, 3, 4\): name one with --report, or .* --all/,
  )
  assert.equal(await waiting(), 3, 'none was dismissed unnamed')
  assert.equal((await command(service, [...dismiss, '--all', '--report', '2'])).code, 2)
  await shell(service, [...dismiss, '--all'])
  assert.equal(await waiting(), 0)
  await assertSound(service)
})

test('what is dismissed stays listed, and can still be accepted by its number', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await succeed(service, 'POST', confirmPath(id), FAILED)
  await service.call('POST', confirmPath(id), fill('o1', '8.00'))
  await service.call('POST', confirmPath(id), fill('o2', '9.00'))
  const several = await command(service, ['execution', 'accept-late', id])
  assert.deepEqual([several.code, /several late fills/.test(several.err)], [5, true])
  await shell(service, ['execution', 'dismiss-late', id, '--report', '1', '--reason', 'a typing error'])
  await shell(service, ['execution', 'accept-late', id])
  assert.equal((await command(service, ['execution', 'dismiss-late', id, '--reason', 'x'])).code, 4)
  await shell(service, ['execution', 'accept-late', id, '--report', '1'])
  const rows = await lateFills(service)
  assert.ok(rows.every((row) => row.accepted_at !== null && row.decided_at !== null))
  assert.equal(formatUsd((await windowsOf(service, 'p'))[0]?.excess ?? (0n as never)), '7.00')
  const audited = await service.store.listAudit({ after: null, limit: 100 })
  assert.deepEqual(
    audited.filter(({ action }) => action.endsWith('-late')).map(({ action, detail }) => [action, detail]),
    [
      ['execution.dismiss-late', { report_ids: [1], reason: 'a typing error' }],
      ['execution.accept-late', { report_id: 2 }],
      ['execution.accept-late', { report_id: 1 }],
    ],
  )
  await assertSound(service)
})

test('a further order that was reported before an adjustment is not added to it: it may be in that sum', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await succeed(service, 'POST', confirmPath(id), FAILED)
  await service.call('POST', confirmPath(id), fill('o2', '6.00'))
  service.advance(1)
  await shell(service, ['trade', 'adjust', id, '--usd', '6', '--btc', '0.0001', '--reason', 'bought with o2'])
  const decided = await command(service, ['execution', 'accept-late', id])
  assert.deepEqual(
    [decided.code, /no late fill left to decide on\. Decided already: 1\./.test(decided.err)],
    [5, true],
  )
  const named = await command(service, ['execution', 'accept-late', id, '--report', '1'])
  assert.equal(named.code, 5)
  assert.match(named.err, /o2 was reported before the execution was adjusted: say with "trade adjust"/)
  const month = await succeed(service, 'GET', '/partner/v1/billing/monthly?month=2026-01')
  assert.equal(month.volume_usd, '6.00')
  service.advance(1)
  await service.call('POST', confirmPath(id), fill('o3', '2.00'))
  await shell(service, ['execution', 'accept-late', id])
  assert.equal(
    (await succeed(service, 'GET', '/partner/v1/billing/monthly?month=2026-01')).volume_usd,
    '8.00',
  )
  await assertSound(service)
})
