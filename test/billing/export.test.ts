// Exports as files: RFC 4180, defused formulas, whole or not at all.

import assert from 'node:assert/strict'
import { closeSync, openSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { columnsOf } from '../../src/billing/columns.ts'
import { csvHeader, csvRow } from '../../src/billing/csv.ts'
import { EXPORTS } from '../../src/billing/export.ts'
import { monthlyAnswer, monthlyUsersAnswer } from '../../src/http/answer-schemas.ts'
import { type Office, openNasty, openOffice, utc } from './books.ts'

const COLUMNS = {
  summary:
    'partner_slug,environment,month,period_start,period_end,currency,final,billable,pricing_tier,' +
    'pricing_tier_source,rate_bps,active_users,active_plans,executions_created,executions_filled,' +
    'executions_partial,executions_failed,executions_cancelled,trade_count,volume_usd,volume_btc,' +
    'average_price_usd,partner_fees_usd,volume_fee_usd,user_fee_usd,minimum_fee_usd,total_fee_usd',
  users:
    'month,partner_slug,environment,partner_user_id,trade_count,volume_usd,volume_btc,average_price_usd,' +
    'partner_fees_usd,fee_usd',
  trades:
    'recorded_at,partner_slug,environment,partner_user_id,partner_plan_id,execution_id,partner_order_id,status,' +
    'usd_amount,btc_amount,execution_price,partner_fee_usd,executed_at,failure_reason',
  adjustments:
    'recorded_at,partner_slug,environment,partner_user_id,partner_plan_id,execution_id,partner_order_id,adjustment,' +
    'usd_difference,btc_difference,reason,original_recorded_at,original_status,original_order_id,' +
    'original_usd_amount,original_btc_amount',
  invoices: 'invoice_number,invoice_date,due_date,partner_slug,month,corrects,net_usd,tax_usd,total_usd',
  partners:
    'partner_slug,environment,from_month,to_month,currency,final,billable,trade_count,active_user_months,' +
    'volume_usd,volume_btc,average_price_usd,partner_fees_usd,volume_fee_usd,user_fee_usd,up_to_minimum_usd,' +
    'total_fee_usd',
}
const REPORTS = ['summary', 'users', 'trades'] as const

test('CRLF ends every record, and only a record', async (t) => {
  const office = await openNasty(t)
  for (const report of REPORTS) {
    const csv = await office.read(`billing export --month 2026-01 --report ${report}`)
    assert.ok(csv.startsWith(`${COLUMNS[report]}\r\n`), report)
    assert.ok(csv.endsWith('\r\n'))
    const outside = csv.replaceAll(/"(?:[^"]|"")*"/g, '')
    assert.doesNotMatch(outside, /[^\r]\n|\r[^\n]|"/)
  }
})

test('columns, their order and the names in JSON are frozen', async (t) => {
  const office = await openNasty(t)
  for (const report of REPORTS) {
    const rows = await office.json(`billing export --month 2026-01 --report ${report} --format json`)
    assert.ok(rows.length > 0)
    for (const row of rows) assert.equal(Object.keys(row).join(','), COLUMNS[report])
  }
  // Every report: one that a new version adds needs its columns here as well.
  assert.deepEqual(
    Object.entries(EXPORTS).map(([report, { columns }]) => [report, csvHeader(columns).trimEnd()]),
    Object.entries(COLUMNS),
  )
})

test('texts go raw to programs and in quotes to spreadsheets, and nothing else of an export changes', async (t) => {
  const office = await openOffice(t, utc(2026, 0), ['000123'])
  office.enter('000123', 'live', [
    { user: '00042', at: utc(2026, 0, 3), usd: '10.00', order: '=1+1' },
    { user: 'a,"b"', at: utc(2026, 0, 4), usd: '20.00', order: '-7' },
  ])
  office.setClock(utc(2026, 1, 2))
  const trades = 'billing export --month 2026-01 --report trades'
  const textsIn = (csv: string) =>
    csv.match(/^\d{4}-.*(?=,filled)/gm)?.map((line) => line.replace(/^[^,]*,|,"?exec_\w+"?/g, ''))
  const plain = await office.read(trades)
  assert.deepEqual(textsIn(plain), [
    "000123,live,00042,plan of 00042,'=1+1",
    `000123,live,"a,""b""","plan of a,""b""",'-7`,
  ])
  const raw = await office.read(`${trades} --raw`)
  assert.equal(raw, plain.replace("'=1+1", '=1+1').replace("'-7", '-7'))
  const quoted = await office.read(`${trades} --quote-text --bom`)
  assert.deepEqual(textsIn(quoted), [
    `"000123",live,"00042","plan of 00042","'=1+1"`,
    `"000123",live,"a,""b""","plan of a,""b""","'-7"`,
  ])
  assert.match(quoted, /,filled,10\.00,[\d.]+,[\d.]+,,[^,"]+,\r\n/, 'other cells and empty ones are as ever')
  for (const [options, message] of [
    ['--bom --format json', /--bom goes with --format csv/],
    ['--raw --bom', /a spreadsheet needs the guard/],
    ['--raw --format json', /JSON has every text as it is/],
    ['--quote-text --format json', /JSON has every text as it is/],
  ] as const) {
    const { code, out, err } = await office.tranche(`${trades} ${options}`)
    assert.deepEqual([code, out], [2, ''], options)
    assert.match(err, message)
  }
})

test('the billing answers of the API have the members of the reports, in the same order', () => {
  assert.deepEqual(Object.keys(monthlyAnswer.shape), columnsOf('summary'))
  const { users, totals } = monthlyUsersAnswer.shape
  const [, , , ...ofUser] = columnsOf('users')
  assert.deepEqual(Object.keys(users.element.shape), ofUser)
  assert.deepEqual(Object.keys(totals.shape), ofUser.slice(1))
})

test('numbers are never defused, not even negative ones; text that looks like one is', () => {
  const columns = [{ name: 'amount' }, { name: 'id', foreign: true }] as const
  for (const [text, line] of [
    ['-12.34', "-12.34,'-12.34"],
    ['-0.00000001', "-0.00000001,'-0.00000001"],
    ['12.34', '12.34,12.34'],
    ['', ','],
  ] as const)
    assert.equal(csvRow(columns, { amount: text, id: text }), `${line}\r\n`)
})

test('figures and times are written for the spreadsheet of a country, and texts stay as they are', async (t) => {
  const office = await openOffice(t, utc(2026, 0), ['acme'])
  office.enter('acme', 'live', [
    { user: '1.5;2', at: utc(2026, 0, 3), usd: '1234.50', btc: '0.02', order: '2026-01-03T00:00:00.000Z' },
    { user: 'a,b', at: utc(2026, 0, 4), usd: '20.00', order: '-7.5' },
  ])
  office.setClock(utc(2026, 1, 2))
  const trades = 'billing export --month 2026-01 --report trades'
  const written = await office.read(`${trades} --delimiter ; --decimal-comma --times spreadsheet`)
  const rows = written.trimEnd().split('\r\n')
  assert.equal(rows[0], COLUMNS.trades.replaceAll(',', ';'))
  assert.match(
    rows[1] ?? '',
    /^2026-01-03 00:00:00;acme;live;"1\.5;2";"plan of 1\.5;2";exec_\w+;2026-01-03T00:00:00\.000Z;filled;1234,50;0,02000000;/,
  )
  assert.match(rows[2] ?? '', /^2026-01-04 00:00:00;acme;live;a,b;[^;]*;exec_\w+;'-7\.5;filled;20,00;/)
  const tabs = await office.read(`${trades} --delimiter tab --totals`)
  assert.equal(tabs.split('\r\n')[0], COLUMNS.trades.replaceAll(',', '\t'))
  assert.match(tabs, /\ta,b\t.*\t20\.00\t/)
  assert.match(tabs, /^TOTAL\t{8}1254\.50\t/m)
  assert.equal(await office.read(`${trades} --delimiter , --times iso`), await office.read(trades))
  const comma = ['--decimal-comma', '--delimiter , --decimal-comma']
  for (const wrong of [...comma, '--delimiter |', '--delimiter ; --format json']) {
    const { code, out } = await office.tranche(`${trades} ${wrong}`)
    assert.deepEqual([code, out], [2, ''], wrong)
  }
})

test('rows are in the order of their unique key', async (t) => {
  const office = await openOffice(t, utc(2026, 0), ['bolt', 'acme'])
  const when = utc(2026, 0, 5)
  const entries = ['b', 'a', 'B', 'ä'].map((user) => ({ user, at: when, usd: '1.00' }))
  for (const slug of ['bolt', 'acme']) office.enter(slug, 'live', entries)
  office.setClock(utc(2026, 1))
  const read = async (report: string): Promise<Record<string, string>[]> =>
    await office.json(`billing export --month 2026-01 --report ${report} --format json`)
  const keys = {
    summary: (await read('summary')).map((row) => `${row.partner_slug} ${row.environment}`),
    users: (await read('users')).map((row) => `${row.partner_slug} ${row.partner_user_id}`),
    trades: (await read('trades')).map((row) => `${row.recorded_at} ${row.execution_id}`),
  }
  for (const [report, seen] of Object.entries(keys)) {
    assert.ok(seen.length >= 2)
    assert.deepEqual(seen, [...new Set(seen)].sort(), report)
  }
})

test('a file is private, appears whole, and is replaced only when told to', async (t) => {
  const office = await openNasty(t)
  const file = `${office.folder}/january.csv`
  const argv = `billing export --month 2026-01 --report trades --output ${file}`
  const first = await office.tranche(argv)
  assert.deepEqual([first.code, first.out], [0, ''])
  assert.match(first.err, /^21 rows in .*january\.csv\.\n$/)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.equal(
    readFileSync(file, 'utf8'),
    await office.read('billing export --month 2026-01 --report trades'),
  )

  writeFileSync(file, 'mine')
  const refused = await office.tranche(argv)
  assert.equal(refused.code, 5)
  assert.match(refused.err, /--force/)
  assert.equal(readFileSync(file, 'utf8'), 'mine')
  assert.equal((await office.tranche(`${argv} --force`)).code, 0)
  assert.match(readFileSync(file, 'utf8'), /^recorded_at,/)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  const quiet = await office.tranche(`--json ${argv} --force`)
  assert.deepEqual([quiet.code, quiet.err], [0, ''])
  assert.deepEqual(JSON.parse(quiet.out), { file, rows: 21 })
  assert.deepEqual(foreign(office), ['january.csv'])
})

test('a name that somebody takes meanwhile is not overwritten', async (t) => {
  const office = await openNasty(t)
  const file = `${office.folder}/raced.csv`
  const run = office.tranche(`billing export --month 2026-01 --report trades --output ${file}`)
  // Once the partial file exists, the command has looked and found the name free.
  while (!foreign(office).some((name) => name.startsWith('raced.csv.'))) await setImmediate()
  writeFileSync(file, 'theirs')
  const { code } = await run
  assert.equal(code, 5)
  assert.equal(readFileSync(file, 'utf8'), 'theirs')
  assert.deepEqual(foreign(office), ['raced.csv'])
})

test('a place that cannot be written says so and leaves nothing behind', async (t) => {
  const office = await openNasty(t)
  const argv = 'billing export --month 2026-01 --output'
  for (const place of [`${office.folder}/no/such.csv`, '/proc/none.csv']) {
    const { code, out, err } = await office.tranche(`${argv} ${place}`)
    assert.deepEqual([code, out], [1, ''], place)
    assert.match(err, /^error: .+\n$/)
  }
  for (const [more, expected] of [
    ['', 5],
    [' --force', 1],
  ] as const) {
    const { code, err } = await office.tranche(`${argv} ${office.folder}${more}`)
    assert.deepEqual([code, err], [expected, `error: ${office.folder} is a folder: name a file in it.\n`])
  }
  assert.deepEqual(foreign(office), [])
  // A link like /dev/stdout, where stdout is a terminal, and where it is a file.
  symlinkSync('/dev/null', `${office.folder}/device`)
  const descriptor = openSync(`${office.folder}/stdout.txt`, 'w')
  symlinkSync(`/proc/self/fd/${descriptor}`, `${office.folder}/descriptor`)
  for (const name of ['device', 'descriptor'])
    for (const more of ['', ' --force']) {
      const { code, err } = await office.tranche(`${argv} ${office.folder}/${name}${more}`)
      const why =
        'is a pipe or a device, and not a file: name another, or leave --output out to write to stdout'
      assert.deepEqual([code, err], [1, `error: ${office.folder}/${name} ${why}.\n`])
    }
  closeSync(descriptor)
  assert.deepEqual(foreign(office).sort(), ['descriptor', 'device', 'stdout.txt'])
})

/** The files in the folder beside the database. */
const foreign = ({ folder }: Office): string[] =>
  readdirSync(folder).filter((name) => !name.startsWith('tranche.db'))
