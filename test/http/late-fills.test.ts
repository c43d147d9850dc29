// Reports of purchases that break a rule: the answer refuses them, they are kept, and an operator records or
// dismisses them.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { formatUsd } from '../../src/core/money.ts'
import { quoted } from '../../src/core/text.ts'
import { DAY_MS, formatInstant } from '../../src/core/time.ts'
import { command, shell } from '../levers/steps.ts'
import { fill, type Service, startService } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  type Json,
  PRICE,
  plan,
  poll,
  sendFirst,
  succeed,
  TRADES,
  windowsOf,
} from './steps.ts'

// What the tests of kept reports ask: what is kept, how many wait, what a month comes to.

export const lateFills = async (service: Service): Promise<Json[]> =>
  JSON.parse(await shell(service, ['--json', 'execution', 'late-fills']))

/** How many reports wait for a decision, as status and check say. */
export async function waiting(service: Service): Promise<[status: number, check: number]> {
  const status = JSON.parse(await shell(service, ['--json', 'status']))
  const { findings } = JSON.parse(await shell(service, ['--json', 'check']))
  const found = findings.find(({ kind }: Json) => kind === 'late_fills')
  assert.equal(found?.mend, found && `tranche --db ${quoted(service.file)} execution late-fills`)
  return [status.late_fills_undecided, Number(/^\d+/.exec(found?.message ?? '0')?.[0])]
}

/** Fires one more tranche, and hands it out to nobody. */
export async function nextPending(service: Service): Promise<string> {
  service.advance(DAY_MS - 60_000)
  await service.tick(PRICE)
  const filter = { slug: null, environment: null, status: 'pending', stuck: false } as const
  const [pending] = await service.store.listExecutions(filter, { after: null, limit: 1 })
  return pending?.executionId ?? ''
}

/** What a month of the service adds up to. */
export const billed = async (service: Service) => {
  const month = await succeed(service, 'GET', '/partner/v1/billing/monthly?month=2026-01')
  return [month.volume_usd, month.trade_count]
}

// Reports of real purchases that break a rule: the answer refuses them, they are kept, and an operator records them.

const FAILED = { partner_order_id: 'o1', status: 'failed' }

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

// Purchases that are reported of an execution before it is handed out: refused, kept, and recorded at most once.

/** A service with a pending execution that a purchase of 9.00 was reported of, twice: refused both times. */
async function boughtWhilePending(t: TestContext) {
  const service = await startService(t, { environment: 'live' })
  const first = (await sendFirst(service, ['p'])).get('p') ?? ''
  await succeed(service, 'POST', confirmPath(first), fill('o1', '10.00'))
  const id = await nextPending(service)
  const said = fill('o2', '9.00')
  for (let time = 0; time < 2; time++) {
    const refused = await service.call('POST', confirmPath(id), said)
    assert.equal(refused.status, 409)
    assert.equal(
      refused.body.detail,
      'Execution cannot be confirmed while pending; poll due first; a purchase is kept as a late fill.',
    )
  }
  const listed = await lateFills(service)
  assert.deepEqual(
    listed.map((row) => [row.execution_id, row.partner_order_id, row.reason, row.status, row.decided_at]),
    [[id, 'o2', 'execution_pending', 'pending', null]],
  )
  assert.deepEqual(await waiting(service), [1, 1])
  return { service, id, said }
}

test('a purchase reported while pending is recorded once when it is delivered and confirmed, and settled', async (t) => {
  const { service, id, said } = await boughtWhilePending(t)
  assert.equal((await poll(service)).size, 1, 'it is handed out as ever')
  assert.equal((await succeed(service, 'POST', confirmPath(id), said)).replayed, undefined)
  assert.equal((await succeed(service, 'POST', confirmPath(id), said)).replayed, true)
  assert.deepEqual(await waiting(service), [0, 0])
  const [row] = await lateFills(service)
  assert.deepEqual(
    [row?.accepted_at, row?.decided_at === null, row?.decision_reason],
    [null, false, 'the same report was recorded'],
  )
  const again = await command(service, ['execution', 'accept-late', id, '--report', '1'])
  assert.deepEqual([again.code, /Report 1 is on record/.test(again.err)], [5, true])
  assert.deepEqual(await billed(service), ['19.00', 2])
  await shell(service, ['billing', 'reconcile', '--month', '2026-01'])
  await assertSound(service)
})

test('why a late fill was accepted is optional, in the audit log, and shown with its execution', async (t) => {
  const { service, id } = await boughtWhilePending(t)
  const reason = 'seen on the statement of the venue'
  await shell(service, ['execution', 'accept-late', id, '--reason', reason])
  const shown = await shell(service, ['execution', 'show', id])
  assert.match(shown, /REPORT +ORDER +USD .*DECISION/)
  assert.match(shown, new RegExp(`1 +o2 .*execution_pending.*${reason}`))
  const json = JSON.parse(await shell(service, ['--json', 'execution', 'show', id]))
  assert.deepEqual(
    json.late_fills.map((late: Json) => [late.report_id, late.partner_order_id, late.decision_reason]),
    [[1, 'o2', reason]],
  )
  const audited = await service.store.listAudit({ after: null, limit: 100 })
  assert.deepEqual(audited.at(-1)?.detail, { report_id: 1, reason })
})

// Late fills are recorded in full: with their fee and price, and dated when their report came.

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

for (const [environment, status] of [
  ['live', 'filled'],
  ['test', 'partial'],
] as const) {
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
