// Several months in one report, the year to date, and rows of totals.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Office, openOffice, utc } from './books.ts'

/** Two partners over the turn of a year, the last month still running. */
async function winter(t: Parameters<typeof openOffice>[0]): Promise<Office> {
  const office = await openOffice(t, utc(2026, 10), ['acme', 'bolt'])
  for (const [i, slug] of ['acme', 'bolt'].entries())
    for (let month = 10; month < 14; month++) {
      const trade = {
        user: 'u',
        at: utc(2026, month, 5, i),
        usd: `${month * 1000.5}`,
        btc: '0.01',
        fee: '0.10',
      }
      office.enter(slug, 'live', [trade, { user: '=v', at: utc(2026, month, 6, i), reason: 'no' }])
    }
  office.enter('acme', 'test', [{ user: 'u', at: utc(2026, 11, 5), usd: '1.00' }])
  office.setClock(utc(2027, 1, 10))
  return office
}

const REPORTS = ['summary', 'users', 'trades', 'adjustments']
const linesOf = (csv: string): string[] => csv.split('\r\n').slice(0, -1)

test('a range is the reports of its months under one header', async (t) => {
  const office = await winter(t)
  for (const report of REPORTS) {
    const read = (months: string) => office.read(`billing export ${months} --report ${report}`)
    const single = []
    for (const month of ['2026-12', '2027-01', '2027-02'])
      single.push(linesOf(await read(`--month ${month}`)))
    const wanted = [single[0]?.[0], ...single.flatMap(([, ...rows]) => rows)]
    assert.deepEqual(linesOf(await read('--from 2026-12 --to 2027-02')), wanted)
    assert.deepEqual(linesOf(await read('--from 2026-12')), wanted)
    assert.deepEqual(linesOf(await read('--from 2026-12 --to 2026-12')), single[0])
    const thisYear = [single[0]?.[0], ...single.slice(1).flatMap(([, ...rows]) => rows)]
    assert.deepEqual(linesOf(await read('--year-to-date')), thisYear)
    assert.deepEqual(linesOf(await read('--year-to-date --to 2027-01')), single[1])
    const rows = JSON.parse(await read('--from 2026-12 --format json'))
    assert.equal(rows.length, wanted.length - 1)
  }
})

test('totals are the last row, exact, and only where they were asked for', async (t) => {
  const office = await winter(t)
  const argv = 'billing export --from 2026-11 --to 2027-01'
  const last = async (report: string) => {
    const rows = JSON.parse(await office.read(`${argv} --report ${report} --totals --format json`))
    const plain = JSON.parse(await office.read(`${argv} --report ${report} --format json`))
    assert.deepEqual(rows.slice(0, -1), plain, report)
    return rows.at(-1)
  }
  const summary = await last('summary')
  assert.deepEqual(
    [summary.partner_slug, summary.environment, summary.rate_bps, summary.average_price_usd],
    ['TOTAL', null, null, null],
  )
  assert.deepEqual(
    [summary.volume_usd, summary.volume_btc, summary.trade_count, summary.executions_failed],
    ['66033.00', '0.06000000', 6, 6],
  )
  const { month, volume_usd, fee_usd } = await last('users')
  assert.deepEqual([month, volume_usd, fee_usd], ['TOTAL', '66033.00', summary.total_fee_usd])
  const { recorded_at, usd_amount, partner_fee_usd, execution_price } = await last('trades')
  assert.deepEqual(
    [recorded_at, usd_amount, partner_fee_usd, execution_price],
    ['TOTAL', '66033.00', '0.60', null],
  )
  assert.equal((await last('adjustments')).usd_difference, '0.00')
  const csv = linesOf(await office.read(`${argv} --totals`))
  assert.match(csv.at(-1) ?? '', /^TOTAL,,,/)
  assert.equal(csv.at(-1)?.split(',').length, csv[0]?.split(',').length)
})

test('show says for several months what it says of each, and adds them up', async (t) => {
  const office = await winter(t)
  const rows = JSON.parse(await office.read('billing show --from 2026-11 --json'))
  const single = []
  for (const month of ['2026-11', '2026-12', '2027-01', '2027-02'])
    single.push(...JSON.parse(await office.read(`billing show --month ${month} --json`)))
  assert.deepEqual(rows, single)
  const table = await office.read('billing show --from 2026-11')
  assert.match(table, /^2026-11 to 2027-02, so far, until 2027-02-10T/)
  assert.match(table, /\n {9}TOTAL +8 +8 +92046\.00 /)
  assert.doesNotMatch(await office.read('billing show --month 2026-11 --partner acme'), /TOTAL|MONTH/)
  assert.match(await office.read('billing show --from 2026-11 --to 2026-12'), /^2026-11 to 2026-12, final\n/)
})

test('a month in words that do not go together is refused before anything is read', async (t) => {
  const office = await openOffice(t, utc(2026, 9))
  for (const words of [
    '--month 2026-10 --from 2026-09',
    '--month 2026-10 --to 2026-11',
    '--month 2026-10 --year-to-date',
    '--from 2026-01 --year-to-date',
    '--to 2026-01',
    '--from 2026-02 --to 2026-01',
    '--from 2026-12',
    '--from 2000-01 --to 2010-01',
    '--from 0001-01',
  ])
    for (const command of ['show', 'export', 'adjustments']) {
      const { code, out, err } = await office.tranche(`billing ${command} ${words}`)
      assert.deepEqual([code, out], [2, ''], `${command} ${words}`)
      assert.match(err, /^error: .*--(from|to|month|year-to-date)/)
    }
  assert.equal((await office.tranche('billing export')).code, 2)
  await office.read('billing export --from 2016-11 --to 2026-10')
  await office.read('billing show --from 9999-12 --to 9999-12')
})

test('test rows are in no report but that of --env test', async (t) => {
  const office = await winter(t)
  for (const report of REPORTS)
    assert.doesNotMatch(await office.read(`billing export --from 2026-11 --report ${report}`), /,test,/)
  assert.match(await office.read('billing export --from 2026-11 --report trades --env test'), /,test,/)
  assert.doesNotMatch(await office.read('billing show --from 2026-11'), / test /)
})
