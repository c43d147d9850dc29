// Which month a trade belongs to, and months with little or nothing in them.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, type Instant, plus } from '../../src/core/time.ts'
import { type Entry, openOffice, utc } from './books.ts'

const NEXT_YEAR = utc(2029, 0, 15)
const at = (when: Instant, user = 'u'): Entry => ({ user, at: when, usd: '10.00', order: `${when}` })

test('the time of execution does not choose the month, and is beside it', async (t) => {
  const office = await openOffice(t, utc(2026, 0))
  office.enter('acme', 'live', [
    { ...at(utc(2027, 1, 1)), executedAt: utc(2027, 0, 31, 23) },
    { ...at(utc(2027, 1, 2)), executedAt: utc(1969, 11, 31) },
    at(utc(2027, 1, 3)),
    { user: 'u', at: utc(2027, 1, 4), order: 'x', reason: 'no funds' },
  ])
  office.setClock(NEXT_YEAR)
  const trades = JSON.parse(await office.read('billing export --month 2027-02 --report trades --format json'))
  assert.deepEqual(
    trades.map((trade: { executed_at: string }) => trade.executed_at),
    ['2027-01-31T23:00:00.000Z', '1969-12-31T00:00:00.000Z', '2027-02-03T00:00:00.000Z', null],
  )
})

test('a month without trades is a header, or an empty array', async (t) => {
  const office = await openOffice(t, utc(2026, 0))
  office.setClock(utc(2026, 1))
  const form = (report: string, format: string) =>
    office.read(`billing export --month 2026-01 --report ${report} --format ${format}`)
  assert.match(await form('trades', 'csv'), /^recorded_at,[a-z_,]+,failure_reason\r\n$/)
  assert.match(await form('users', 'csv'), /^month,[a-z_,]+,fee_usd\r\n$/)
  assert.equal(await form('trades', 'json'), '[]\n')
  assert.equal(await form('users', 'json'), '[]\n')
  const summary = JSON.parse(await form('summary', 'json'))
  assert.deepEqual(
    summary.map((row: Record<string, unknown>) => [row.environment, row.trade_count, row.average_price_usd]),
    [['live', 0, null]],
  )
  const [live] = (await form('summary', 'csv')).split('\r\n').slice(1)
  assert.equal(
    live,
    'acme,live,2026-01,2026-01-01T00:00:00.000Z,2026-02-01T00:00:00.000Z,USD,true,true,starter,volume,50,' +
      '0,0,0,0,0,0,0,0,0.00,0.00000000,,0.00,0.00,0.00,0.00,0.00',
  )
})

test('no partners at all: the header', async (t) => {
  const office = await openOffice(t, utc(2026, 0))
  for (const month of ['2025-12', '1970-01'])
    assert.equal((await office.read(`billing export --month ${month}`)).split('\r\n').length, 2)
  assert.match(await office.read('billing show --month 2025-12'), /no partners/)
})

test('the present month counts so far and is not final; the next is zeros', async (t) => {
  const office = await openOffice(t, utc(2026, 0))
  await office.read('tier set starter --rate-bps 50 --monthly-minimum-usd 100.00')
  office.setClock(utc(2026, 0, 15))
  office.enter('acme', 'live', [at(utc(2026, 0, 10)), { user: 'v', at: utc(2026, 0, 11), reason: 'x' }])
  const show = async (month: string) =>
    JSON.parse(await office.read(`--json billing show --month ${month} --env live`))[0]
  const present = await show('2026-01')
  assert.deepEqual(
    [
      present.final,
      present.trade_count,
      present.executions_failed,
      present.active_users,
      present.total_fee_usd,
    ],
    [false, 1, 1, 1, '100.00'],
  )
  const future = await show('2026-02')
  assert.deepEqual(
    [future.final, future.trade_count, future.minimum_fee_usd, future.total_fee_usd],
    [false, 0, '0.00', '0.00'],
  )
  assert.match(await office.read('billing show'), /2026-01, so far, until 2026-01-15T00:00:00\.000Z/)
  office.setClock(utc(2026, 0, 31, 23, 59, 59, 999))
  assert.equal((await show('2026-01')).final, false)
  office.setClock(utc(2026, 1))
  assert.equal((await show('2026-01')).final, true)
  assert.match(await office.read('billing show --month 2026-01'), /2026-01, final/)
})

test('a month that is not over is said to be so, beside the result', async (t) => {
  const office = await openOffice(t, utc(2026, 0, 15))
  const [current, next, past] = ['2026-01', '2026-02', '2025-12']
  const commands = [
    'billing reconcile',
    'billing export',
    `billing export --force --output ${office.folder}/x`,
  ]
  for (const command of commands) {
    const said = async (month: string) => {
      const { code, err } = await office.tranche(`${command} --month ${month}`)
      assert.equal(code, 0)
      return err.replace(/^\d+ rows? in .*\n/m, '')
    }
    assert.equal(await said(current), '2026-01 is not over yet: these are its figures so far.\n')
    assert.equal(await said(next), '2026-02 has not begun.\n')
    assert.equal(await said(past), '')
  }
  const silent = await office.tranche(`billing reconcile --json --month ${next}`)
  assert.deepEqual([silent.code, silent.err], [0, ''])
  for (const [month, head] of [
    [current, '2026-01, so far, until 2026-01-15T00:00:00.000Z'],
    [next, '2026-02, not yet begun'],
  ]) {
    const shown = await office.tranche(`billing show --month ${month}`)
    assert.deepEqual([shown.out.split('\n')[0], shown.err], [head, ''])
  }
})

test('executions count in the month they were created, recorded or cancelled in', async (t) => {
  const office = await openOffice(t, utc(2026, 0))
  const day = (month: number) => utc(2026, month, 10)
  office.enter('acme', 'live', [
    { user: 'a', at: day(0), usd: '10.00', status: 'partial' },
    { user: 'a', at: plus(day(0), DAY_MS), status: 'cancelled' },
    { user: 'b', at: day(1), usd: '10.00' },
  ])
  // As if they had been created in January, and one ended by its plan in February.
  office.sql(`update executions set created_at = ${day(0)};
    update executions set cancelled_at = ${day(1)} where status = 'partial'`)
  office.setClock(utc(2026, 3))
  const counts = []
  for (const month of ['2026-01', '2026-02', '2026-03']) {
    const [row] = JSON.parse(await office.read(`--json billing show --month ${month} --env live`))
    counts.push([
      row.executions_created,
      row.executions_filled,
      row.executions_partial,
      row.executions_failed,
      row.executions_cancelled,
      row.active_users,
      row.active_plans,
    ])
  }
  assert.deepEqual(counts, [
    [3, 0, 1, 0, 1, 1, 1],
    [0, 1, 0, 0, 1, 1, 1],
    [0, 0, 0, 0, 0, 0, 0],
  ])
})

test('environments and partners are kept apart', async (t) => {
  const office = await openOffice(t, utc(2026, 0), ['acme', 'bolt'])
  const places = [
    ['acme', 'live', '1.00'],
    ['acme', 'test', '2.00'],
    ['bolt', 'live', '4.00'],
    ['bolt', 'test', '8.00'],
  ] as const
  // The same names everywhere: only the tenant tells them apart.
  for (const [slug, environment, usd] of places)
    office.enter(slug, environment, [{ user: 'u', at: utc(2026, 0, 9), usd, order: 'o', btc: '0.00001000' }])
  office.setClock(utc(2026, 1))
  const filters = ['', ' --partner acme', ' --partner bolt', ' --env test', ' --partner bolt --env live']
  const wanted = [['1.00', '4.00'], ['1.00'], ['4.00'], ['2.00', '8.00'], ['4.00']]
  for (const [i, filter] of filters.entries()) {
    for (const [report, field] of [
      ['trades', 'usd_amount'],
      ['users', 'volume_usd'],
      ['summary', 'volume_usd'],
    ] as const) {
      const argv = `billing export --month 2026-01 --report ${report} --format json${filter}`
      const rows: Record<string, string>[] = JSON.parse(await office.read(argv))
      // Trades of one instant are in the order of their ids, which is the order they were entered in.
      assert.deepEqual(
        rows.map((row) => row[field]),
        wanted[i],
        argv,
      )
    }
    await office.read(`billing reconcile --month 2026-01${filter}`)
  }
  for (const row of JSON.parse(await office.read('--json billing show --month 2026-01 --env test')))
    assert.deepEqual([row.billable, row.total_fee_usd, row.volume_fee_usd], [false, '0.00', '0.00'])
})

test('sums beyond 2^53 are exact, and one beyond 2^63 is added up all the same or refused', async (t) => {
  const office = await openOffice(t, utc(2026, 0), ['acme', 'bolt'])
  const big = (user: string, usd: string, day = 5): Entry => ({
    user,
    at: utc(2026, 0, day),
    usd,
    btc: '21000000',
    fee: '1000000.00',
  })
  // 2^63 units are 92233720368.54775808 dollars.
  office.enter('acme', 'live', [
    big('u', '90071992.54'),
    ...Array.from({ length: 3 }, (_, i) => big(`w${i}`, '92233720368.54', 6 + i)),
  ])
  office.setClock(utc(2026, 1))
  const [row] = JSON.parse(await office.read('--json billing show --month 2026-01 --partner acme --env live'))
  assert.equal(row.volume_usd, '276791233098.16')
  assert.equal(row.volume_btc, '84000000.00000000')
  assert.equal(row.total_fee_usd, '553582466.20')
  await office.read('billing reconcile --month 2026-01 --partner acme')

  // Two windows of one plan: each is sound, and SQLite refuses to add them up.
  for (const usd of ['92233720368.54', '0.01']) office.enter('bolt', 'live', [big('u', usd)])
  for (const verb of ['show', 'export', 'reconcile']) {
    const { code, out } = await office.tranche(`billing ${verb} --month 2026-01 --partner bolt --env live`)
    assert.notEqual(code, 0, verb)
    assert.doesNotMatch(out, /volume.*-|9223372036854775/, verb)
  }
})
