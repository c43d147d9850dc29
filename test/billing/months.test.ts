// The months that trades belong to, months with little or nothing in them, and several months in one report.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, type Instant, plus } from '../../src/core/time.ts'
import { each } from '../store/world.ts'
import { type Entry, type Office, openOffice, utc } from './books.ts'

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
  const trades = await office.json('billing export --month 2027-02 --report trades --format json')
  assert.deepEqual(each(trades, 'executed_at'), [
    '2027-01-31T23:00:00.000Z',
    '1969-12-31T00:00:00.000Z',
    '2027-02-03T00:00:00.000Z',
    null,
  ])
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
  assert.deepEqual(each(summary, 'environment', 'trade_count', 'average_price_usd'), [['live', 0, null]])
  const [live] = (await form('summary', 'csv')).split('\r\n').slice(1)
  assert.equal(
    live,
    'acme,live,2026-01,2026-01-01T00:00:00.000Z,2026-02-01T00:00:00.000Z,USD,true,true,starter,volume,50,' +
      '0,0,0,0,0,0,0,0,0.00,0.00000000,,0.00,0.00,0.00,0.00,0.00',
  )
})

test('a month that is not over is said to be so, beside the result', async (t) => {
  const office = await openOffice(t, utc(2026, 0, 15))
  const [current, next, past] = ['2026-01', '2026-02', '2025-12']
  for (const command of ['reconcile', 'export', `export --force --output ${office.folder}/x`]) {
    const said = async (month: string) => {
      const { code, err } = await office.tranche(`billing ${command} --month ${month}`)
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
    const [row] = await office.json(`--json billing show --month ${month} --env live`)
    const executions = ['created', 'filled', 'partial', 'failed', 'cancelled'].map(
      (what) => `executions_${what}`,
    )
    counts.push([...executions, 'active_users', 'active_plans'].map((name) => row[name]))
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
  // Equal names everywhere: only the tenant tells them apart.
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
      // Trades of one instant are in the order of their ids, which is the order they were entered in.
      assert.deepEqual(each(await office.json(argv), field), wanted[i], argv)
    }
    await office.read(`billing reconcile --month 2026-01${filter}`)
  }
  for (const row of await office.json('--json billing show --month 2026-01 --env test'))
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
  const [row] = await office.json('--json billing show --month 2026-01 --partner acme --env live')
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

// Several months in one report, the year to date, and rows of totals.

/** Two partners over the turn of a year, the last month still running. */
async function winter(t: Parameters<typeof openOffice>[0]): Promise<Office> {
  const office = await openOffice(t, utc(2026, 10), ['acme', 'bolt'])
  for (const [i, slug] of ['acme', 'bolt'].entries())
    for (let month = 10; month < 14; month++) {
      const at = (day: number) => utc(2026, month, day, i)
      const trade = { user: 'u', at: at(5), usd: `${month * 1000.5}`, btc: '0.01', fee: '0.10' }
      office.enter(slug, 'live', [trade, { user: '=v', at: at(6), reason: 'no' }])
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
    assert.equal(JSON.parse(await read('--from 2026-12 --format json')).length, wanted.length - 1)
  }
})

test('totals are the last row, exact, and only where they were asked for', async (t) => {
  const office = await winter(t)
  const argv = 'billing export --from 2026-11 --to 2027-01'
  const last = async (report: string) => {
    const rows = await office.json(`${argv} --report ${report} --totals --format json`)
    assert.deepEqual(rows.slice(0, -1), await office.json(`${argv} --report ${report} --format json`), report)
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
  const rows = await office.json('billing show --from 2026-11 --json')
  const single = []
  for (const month of ['2026-11', '2026-12', '2027-01', '2027-02'])
    single.push(...(await office.json(`billing show --month ${month} --json`)))
  assert.deepEqual(rows, single)
  const table = await office.read('billing show --from 2026-11')
  assert.match(table, /^2026-11 to 2027-02, so far, until 2027-02-10T/)
  // Each partner's total, and the grand total.
  const totals = table.split('\n').filter((line) => line.startsWith('TOTAL'))
  assert.deepEqual(
    totals.map((line) => line.split(/ {2,}/).slice(0, 5)),
    [
      ['TOTAL', 'acme live', '4', '4', '46023.00'],
      ['TOTAL', 'bolt live', '4', '4', '46023.00'],
      ['TOTAL', '8', '8', '92046.00', '0.08000000'],
    ],
  )
  const ofOne = await office.read('billing show --from 2026-11 --partner acme')
  assert.equal(ofOne.match(/^TOTAL +acme live +4 +4 +46023\.00 /gm)?.length, 1)
  assert.equal(ofOne.match(/TOTAL/g)?.length, 1)
  assert.doesNotMatch(await office.read('billing show --month 2026-11 --partner acme'), /TOTAL|MONTH/)
  assert.match(await office.read('billing show --from 2026-11 --to 2026-12'), /^2026-11 to 2026-12, final\n/)
})

test('the adjustments of a range are one table, each with its month', async (t) => {
  const office = await winter(t)
  const trades = await office.json('execution list --env live --status filled --json')
  const adjust = (at: number, usd: string) =>
    office.read(`trade adjust ${trades[at].execution_id} --usd ${usd} --btc 0.01 --reason wrong`)
  await adjust(0, '1.00')
  office.setClock(utc(2027, 2, 10))
  await adjust(1, '123456.78901234')
  const table = await office.read('billing adjustments --from 2027-01')
  const lines = table.trimEnd().split('\n')
  assert.equal(lines.length, 3, table)
  const [titles = '', ...rows] = lines
  assert.match(titles, /^MONTH +NO +RECORDED /)
  const months = rows.map((row) => row.slice(0, 7))
  assert.deepEqual(months, ['2027-02', '2027-03'])
  const [row] = await office.json('billing adjustments --from 2027-01 --json')
  assert.deepEqual(
    [row.orders.length, row.usd_amount, row.original_usd_amount],
    [1, '1.00', row.usd_amount_before],
  )
  assert.doesNotMatch(await office.read('billing adjustments --month 2027-02'), /MONTH/)
})

test('reconcile proves a range month by month, and adds it up', async (t) => {
  const office = await winter(t)
  const words = await office.read('billing reconcile --from 2026-12 --to 2027-01')
  assert.equal(
    words,
    [
      '2026-12: users, trades and summary agree (live, 2 partners, 2 trades).',
      '2027-01: users, trades and summary agree (live, 2 partners, 2 trades).',
      '2026-12 to 2027-01: 2 months agree (live, 2 partners, 4 trades, 46023.00 USD).\n',
    ].join('\n'),
  )
  const json = await office.json('billing reconcile --from 2026-12 --json')
  assert.deepEqual(
    { ...json, months: json.months.map(({ month, ok, final, trades }: Row) => [month, ok, final, trades]) },
    {
      ok: true,
      month: null,
      from: '2026-12',
      to: '2027-02',
      final: false,
      tenants: 2,
      trades: 6,
      volume_usd: '72036.00',
      volume_btc: '0.06000000',
      findings: [],
      months: [
        ['2026-12', true, true, 2],
        ['2027-01', true, true, 2],
        ['2027-02', true, false, 2],
      ],
    },
  )
  const one = await office.json('billing reconcile --month 2026-12 --json')
  assert.deepEqual([one.month, one.trades, one.months.length], ['2026-12', 2, 1])
  office.sql(
    "update trades set usd_amount = usd_amount - 1 where partner_order_id = (select min(partner_order_id) from trades where status = 'filled')",
  )
  const found = await office.tranche('billing reconcile --from 2026-11 --to 2027-01 --json')
  assert.equal(found.code, 3)
  const { ok, findings } = JSON.parse(found.out)
  assert.equal(ok, false)
  // A finding about the whole file is reported once, not once a month.
  assert.equal(findings.filter(({ kind }: Row) => kind === 'trade_changed').length, 1)
  assert.equal((await office.tranche('billing reconcile --from 2026-11 --to 2027-01')).code, 3)
  for (const wrong of ['--month 2026-12 --from 2026-11', '--to 2026-12'])
    assert.equal((await office.tranche(`billing reconcile ${wrong}`)).code, 2, wrong)
})

test('a reconciled year names no months before the first trade, and proves them all the same', async (t) => {
  const office = await openOffice(t, utc(2026, 8), ['acme'])
  office.enter('acme', 'live', [{ user: 'u', at: utc(2026, 8, 20), usd: '500.00', btc: '0.008' }])
  office.setClock(utc(2026, 10, 20))
  const months = async (argv: string) =>
    (await office.read(`billing reconcile ${argv}`.trim())).match(
      /^\d{4}-\d\d(?: to \d{4}-\d\d)?: (?=users|\d+ months)/gm,
    )
  const named = ['2026-09: ', '2026-10: ', '2026-11: ', '2026-09 to 2026-11: ']
  assert.deepEqual(await months('--year-to-date'), named)
  assert.deepEqual(await months(''), ['2026-11: '], 'the present month, when none is named')
  assert.equal((await months('--from 2026-01'))?.length, 12, 'what was asked for by name is named')
  assert.deepEqual(await months('--year-to-date --to 2026-03'), ['2026-03: '])
  const json = await office.json('billing reconcile --year-to-date --json')
  assert.deepEqual([json.from, json.months.length], ['2026-01', 11])
})

type Row = Record<string, unknown>

test('a report of all test environments says which sandboxes are ahead, and where their months are', async (t) => {
  const office = await openOffice(t, utc(2026, 9, 10), ['acme', 'bolt'])
  await office.read('sandbox advance acme 40d --price 64000')
  const said = /acme test is 40 d ahead, in 2026-11: .*--partner acme/
  const one = ['show --month 2026-11', 'export --month 2026-10', 'reconcile --month 2026-11']
  for (const argv of ['show', 'adjustments', ...one]) {
    const { code, err } = await office.tranche(`billing ${argv} --env test`)
    assert.deepEqual([code, said.test(err), err.match(/ahead/g)?.length], [0, true, 1], `${argv}: ${err}`)
    assert.match((await office.tranche(`billing ${argv} --env test --json`)).err, said)
  }
  for (const argv of ['show', 'show --env test --partner acme', 'show --env test --partner bolt'])
    assert.doesNotMatch((await office.tranche(`billing ${argv}`)).err, /ahead/, argv)
  assert.match(await office.read('billing show --env test --partner acme'), /^2026-11, so far/)
  // A month that was over before the sandbox's clock advanced is whole.
  assert.doesNotMatch((await office.tranche('billing export --month 2026-09 --env test')).err, /ahead/)
})

test('a year is its twelve months, and the present one those that have begun', async (t) => {
  const office = await winter(t)
  for (const command of ['export --report users', 'show', 'reconcile', 'adjustments', 'issued']) {
    const told = (range: string) => office.tranche(`billing ${command} ${range}`)
    assert.deepEqual(await told('--year 2026'), await told('--year-to-date --to 2026-12'))
    assert.deepEqual(await told('--year 2027'), await told('--year-to-date'))
  }
  for (const [year, why] of [
    ['2028', /^error: 2028 has not begun/],
    ['2026 --month 2026-10', /--(year|month)/],
    ['2026 --from 2026-10', /--(year|from)/],
    ['2026 --to 2026-10', /--(year|to)/],
    ['2026 --year-to-date', /--(year|year-to-date)/],
  ] as const) {
    const { code, out, err } = await office.tranche(`billing show --year ${year}`)
    assert.deepEqual([code, out], [2, ''], year)
    assert.match(err, why)
  }
})

type Summed = Record<'trade_count' | 'active_users', number> & Record<string, string>
const cents = (text: string): bigint => BigInt(text.replace('.', ''))

test('the partners report adds the months of each partner up, exactly', async (t) => {
  const office = await openOffice(t, utc(2026, 2), ['bolt', 'late-leaver'])
  await office.read('tier set starter --rate-bps 50 --per-active-user-usd 0.40 --monthly-minimum-usd 9.99')
  office.enter('bolt', 'live', [
    { user: 'u', at: utc(2026, 2, 5), usd: '1000.01', btc: '0.01', fee: '1.10' },
    { user: 'v', at: utc(2026, 3, 5), usd: '3333.33', btc: '0.03', fee: '0.01' },
    { user: 'u', at: utc(2026, 3, 6), usd: '0.01', btc: '0.00000001' },
  ])
  office.setClock(utc(2026, 4, 5))
  await office.read('partner disable late-leaver --last-minimum 2026-05')
  await office.read('partner create acme --name acme')
  office.enter('acme', 'live', [{ user: 'u', at: utc(2026, 5, 1), usd: '1000000.55', btc: '15.5' }])
  office.setClock(utc(2026, 6, 10))
  await office.read('tick --price 64000')

  const rows = await office.json('billing export --year 2026 --report partners --format json')
  assert.deepEqual(each(rows, 'partner_slug', 'from_month', 'to_month', 'final', 'total_fee_usd'), [
    // By slug, regardless of when each was created; each from its first month on.
    ['acme', '2026-05', '2026-07', false, '3519.98'],
    ['bolt', '2026-03', '2026-07', false, '57.43'],
    ['late-leaver', '2026-03', '2026-07', false, '29.97'],
  ])
  const months: Summed[] = await office.json('billing export --year 2026 --format json')
  for (const row of rows as Summed[]) {
    const ofPartner = months.filter(({ partner_slug }) => partner_slug === row.partner_slug)
    const sum = (of: (month: Summed) => bigint): bigint =>
      ofPartner.reduce((total, month) => total + of(month), 0n)
    const money = ['volume_usd', 'volume_btc', 'partner_fees_usd', 'total_fee_usd']
    const summed = money.map((name) => sum((month) => cents(month[name] ?? '')))
    for (const name of ['trade_count', 'active_users'] as const)
      summed.push(sum((month) => BigInt(month[name])))
    const own = money.map((name) => cents(row[name] ?? ''))
    assert.deepEqual([...own, ...[row.trade_count, row.active_user_months ?? -1].map(BigInt)], summed)
    const parts = ['volume_fee_usd', 'user_fee_usd', 'up_to_minimum_usd']
    const added = parts.reduce((total, name) => total + cents(row[name] ?? ''), 0n)
    assert.equal(cents(row.total_fee_usd ?? ''), added)
  }
  const closed = await office.read('billing export --from 2026-03 --to 2026-06 --report partners --totals')
  assert.match(closed, /^bolt,live,2026-03,2026-06,USD,true,true,3,3,/m)
  assert.match(closed, /^TOTAL,,,,,,,4,4,/m)

  // The screen and the JSON agree; months that are not final are marked.
  const shown = await office.tranche('billing show --year 2026 --by partner')
  assert.match(shown.out, /^2026-01 to 2026-07, so far, until /)
  assert.match(shown.out, /^bolt live +2026-03 +2026-07 +3 .* 57\.43$/m)
  assert.match(shown.out, /^TOTAL .* 3607\.38$/m)
  assert.deepEqual(await office.json('billing show --year 2026 --by partner --json'), rows)
  const exported = await office.tranche('billing export --year 2026 --report partners')
  assert.match(exported.err, /2026-07 is not over yet/)
  const tests = await office.read('billing show --year 2026 --by partner --env test')
  assert.match(tests, /^acme test .* not billed$/m)
  const before = await office.read('billing show --year 2025 --by partner')
  assert.equal(before, '2025-01 to 2025-12, final\n\nno partners\n')
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
    for (const command of ['show', 'reconcile']) {
      const { code, out, err } = await office.tranche(`billing ${command} ${words}`)
      assert.deepEqual([code, out], [2, ''], `${command} ${words}`)
      assert.match(err, /^error: .*--(from|to|month|year-to-date)/)
    }
  assert.equal((await office.tranche('billing export')).code, 2)
  await office.read('billing export --from 2016-11 --to 2026-10')
  await office.read('billing show --from 9999-12 --to 9999-12')
})
