// The partner's own orders beside ours: orders that either side lacks, orders that differ, and the format of a file.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { UNKNOWN_MAX } from '../../src/billing/against.ts'
import { machineAt } from '../../src/machine.ts'
import { confirmPath, sendFirst, succeed } from '../http/steps.ts'
import { command, shell } from '../levers/steps.ts'
import { each } from '../store/world.ts'
import { fill, runHere, type Service, startService } from '../support/service.ts'
import { type Office, openNasty, openOffice, utc } from './books.ts'

const MINE = 'billing reconcile --partner acme --month 2026-10'

async function october(t: Parameters<typeof openOffice>[0]): Promise<Office> {
  const office = await openOffice(t, utc(2026, 8), ['acme', 'bolt'])
  const at = (day: number, month = 9) => utc(2026, month, day, 9)
  office.enter('acme', 'live', [
    { user: 'ana', at: at(5), order: 'A-1', usd: '250.00', btc: '0.00390625', fee: '1.25' },
    { user: 'ana', at: at(12), order: 'A-2', usd: '250.00', btc: '0.00400000', fee: '1.25' },
    { user: 'ben', at: at(20), order: 'B-1', usd: '80.12345678', btc: '0.00125000', status: 'partial' },
    { user: 'cem', at: at(21), order: 'C-1', reason: 'no funds' },
    { user: 'ana', at: at(30, 8), order: 'S-1', usd: '7.00', btc: '0.00010000' },
    { user: 'ana', at: at(1, 10), order: 'N-1', usd: '9.00', btc: '0.00020000' },
  ])
  office.enter('acme', 'test', [{ user: 'ana', at: at(5), order: 'T-1', usd: '1.00' }])
  office.enter('bolt', 'live', [{ user: 'zoe', at: at(5), order: 'Z-1', usd: '2.00' }])
  office.setClock(utc(2026, 10, 3))
  return office
}

const HEAD = 'partner_order_id,usd_amount,btc_amount\n'
const EQUAL = `${HEAD}A-1,250,0.00390625\nA-2,250.00,0.004\nB-1,80.12345678,0.00125\nC-1,,\n`

/** Compares with a file of this text. */
async function against(office: Office, text: string | Buffer, more = '') {
  const file = join(office.folder, 'orders.csv')
  writeFileSync(file, text)
  const { code, out, err } = await office.tranche(`--json ${MINE} --against ${file}${more}`)
  return { code, err, ...(out === '' ? {} : JSON.parse(out)) }
}

type Finding = Record<'finding' | 'partner_order_id' | 'remark', string | null> & { line: number | null }
const brief = ({ findings }: { findings: Finding[] }) =>
  findings.map(({ finding, partner_order_id, line }) => [finding, partner_order_id, line])

test('equal lists agree: with our own column names, with others, from a pipe, and in any spelling of CSV', async (t) => {
  const office = await october(t)
  const told = await against(office, EQUAL)
  assert.deepEqual([told.code, told.ok, told.findings], [0, true, []])
  const sums = { orders: 3, usd_amount: '580.12345678', btc_amount: '0.00915625' }
  assert.deepEqual([told.ours, told.theirs], [sums, sums])
  assert.deepEqual(told.difference, { usd_amount: '0.00', btc_amount: '0.00000000' })
  const german = EQUAL.replaceAll(',', ';').replaceAll('.', ',')
  const read = await against(office, german, ' --delimiter ; --decimal-comma --times spreadsheet')
  assert.deepEqual([read.code, read.theirs], [0, sums])
  const crlf = EQUAL.replaceAll('\n', '\r\n')
  const quotedCells = EQUAL.replace(/[^,\n]+/g, '"$&"')
  for (const text of [crlf, `\uFEFF${crlf}`, EQUAL.trimEnd(), quotedCells, EQUAL.replaceAll('\n', '\r')])
    assert.equal((await against(office, text)).code, 0, JSON.stringify(text))
  // The guard against formulas, and the blanks and blank lines that a spreadsheet may add.
  const most = "A-2,'-92233720368.54775807,'-0.004\nA-2,92233720368.54775807,0.004\nA-2, 250 ,0.004 "
  const guarded = EQUAL.replace('A-2,250.00,0.004', most)
  assert.equal((await against(office, guarded)).code, 0)
  assert.equal((await against(office, `${EQUAL}\n\n`)).code, 0)
  // The columns may be in any order.
  const turned = EQUAL.replace(/^([^,]*),([^,]*),(.*)$/gm, '$2,$1,$3')
  assert.equal((await against(office, turned)).code, 0)
  const longest = `"multi\n${'x'.repeat(65_530)}",$1`
  const named = EQUAL.replace(HEAD, 'id;x,order,"paid, USD",got\n').replace(/^([A-C])/gm, longest)
  const options = ['--column-order', 'order', '--column-usd', 'paid, USD', '--column-btc', 'got']
  const { machine } = machineAt(office.clock())
  const argv = ['--db', office.file, ...MINE.split(' '), '--against', '-', ...options]
  const piped = await runHere(argv, { machine, input: named })
  assert.deepEqual([piped.code, piped.err], [0, ''])
  assert.equal(
    piped.out,
    '2026-10: acme live and stdin agree (3 orders, 580.12345678 USD, 0.00915625 BTC).\n',
  )
})

test('an export of ours agrees with the ledger, whatever the names in it', async (t) => {
  const office = await openNasty(t)
  for (const form of ['', ' --bom', ' --totals']) {
    const file = join(office.folder, `own${form.trim()}.csv`)
    await office.read(`billing export --month 2026-01 --partner acme --report trades --output ${file}${form}`)
    const told = await office.json(
      `--json billing reconcile --partner acme --month 2026-01 --against ${file}`,
    )
    assert.deepEqual([told.ok, told.ours.orders, told.theirs.orders], [true, 14, 14], form)
  }
})

test('what either side lacks and what differs is named, added up, and exits 3', async (t) => {
  const office = await october(t)
  const text = `partner_order_id,usd_amount,btc_amount,partner_fee_usd,partner_plan_id
A-1,250.00,0.00390624,1.25,plan of ana
B-1,80.12345678,0.00125000,0.5,other plan
C-1,30.00,0.00050000,,
N-1,9.00,0.00020000,,
S-1,7.00,0.00010000,,
X-1,11.00,0.00030000,,
X-1,1.50,0.00005000,,
,5.00,0.00010000,,
,0.00,0,,
`
  const told = await against(office, text)
  assert.equal(told.code, 3)
  assert.deepEqual(brief(told), [
    ['without_id', null, 9],
    ['different', 'A-1', 2],
    ['missing_there', 'A-2', null],
    ['different', 'B-1', 3],
    ['missing_here', 'C-1', 4],
    ['missing_here', 'N-1', 5],
    ['missing_here', 'S-1', 6],
    ['missing_here', 'X-1', 7],
  ])
  const of = Object.fromEntries(told.findings.map((one: Finding) => [one.partner_order_id, one]))
  assert.deepEqual(of['A-1'].differs_in, ['btc_amount'])
  assert.deepEqual(of['B-1'].differs_in, ['partner_fee_usd', 'partner_plan_id'])
  assert.match(of['C-1'].remark, /^execution exec_[0-9a-f]{32} is recorded as failed$/)
  assert.match(
    of['C-1'].mend,
    /^tranche .*trade adjust exec_\w+ --usd 30\.00 --btc 0\.00050000 --reason WHY$/,
  )
  assert.match(of['N-1'].remark, /^recorded in 2026-11 as exec_/)
  assert.match(of['S-1'].remark, /^recorded in 2026-09 as exec_/)
  assert.match(of['X-1'].remark, /^2 rows of the file, added up; not known here/)
  assert.deepEqual(of['X-1'].theirs, {
    usd_amount: '12.50',
    btc_amount: '0.00035000',
    partner_fee_usd: null,
    partner_plan_id: null,
  })
  assert.deepEqual(told.missing_here, { orders: 4, usd_amount: '58.50', btc_amount: '0.00115000' })
  assert.deepEqual(told.missing_there, { orders: 1, usd_amount: '250.00', btc_amount: '0.00400000' })
  assert.deepEqual(told.different, { orders: 2, usd_amount: '0.00', btc_amount: '0.00000001' })
  assert.deepEqual(told.without_id, { orders: 1, usd_amount: '5.00', btc_amount: '0.00010000' })
  const net = (side: 'ours' | 'theirs') => Number(told[side].usd_amount)
  assert.equal(told.difference.usd_amount, (net('ours') - net('theirs')).toFixed(2))
  // A table holds the same findings, also over a range that includes the neighbouring months.
  const table = await office.tranche(`${MINE} --against ${join(office.folder, 'orders.csv')}`)
  assert.equal(table.code, 3)
  assert.match(table.out, /^WHAT +ORDER +LINE +OUR USD .* REMARK\n/)
  assert.match(table.out, /\nmissing there +A-2 +- +250\.00 +- +0\.00400000 +- +execution exec_/)
  assert.match(
    table.out,
    /\n2026-10: acme live has 3 orders, 580\.12345678 USD, 0\.00915625 BTC\.\n.*orders\.csv has 7 orders, 393\.6/,
  )
  const file = join(office.folder, 'orders.csv')
  const range = `--json billing reconcile --partner acme --from 2026-09 --to 2026-11 --against ${file}`
  const wide = JSON.parse((await office.tranche(range)).out)
  const orders = brief(wide).map(([, order]) => order)
  assert.deepEqual(orders.sort(), ['A-1', 'A-2', 'B-1', 'C-1', 'X-1', null])
  const next = await against(office, `${HEAD}C-1,30.00,0.0005\n`, ' --month 2026-11')
  const failed = next.findings.find((one: Finding) => one.partner_order_id === 'C-1')
  assert.match(
    `${failed.remark} > ${failed.mend}`,
    /^execution \w+ is recorded as failed, in 2026-10 > .*adjust/,
  )
})

test('an order is compared with its corrections, whenever they were made', async (t) => {
  const office = await october(t)
  const trades = await office.json(`--json billing export --month 2026-10 --partner acme --report trades`)
  const idOf = (order: string) =>
    trades.find((one: { partner_order_id: string }) => one.partner_order_id === order).execution_id
  const adjust = (order: string, usd: string, btc: string) =>
    office.read(`trade adjust ${idOf(order)} --usd ${usd} --btc ${btc} --reason wrong`)
  await adjust('A-2', '240.00', '0.00384000')
  await adjust('B-1', '0', '0')
  await adjust('C-1', '30.00', '0.00050000')
  const now = `${HEAD}A-1,250,0.00390625\nA-2,240,0.00384\nC-1,30,0.0005\n`
  const told = await against(office, now)
  assert.deepEqual([told.code, told.ok, told.ours.usd_amount], [0, true, '520.00'])
  const before = await against(office, EQUAL)
  assert.deepEqual(brief(before), [
    ['different', 'A-2', 3],
    ['missing_here', 'B-1', 4],
    ['missing_there', 'C-1', 5],
  ])
  assert.match(before.findings[0].remark, /^corrected here since; execution exec_/)
  // In the month of the corrections they are told apart from its own orders.
  const file = join(office.folder, 'november.csv')
  writeFileSync(file, `${HEAD}N-1,9.00,0.0002\n`)
  const later = await office.tranche(`billing reconcile --partner acme --month 2026-11 --against ${file}`)
  assert.equal(later.code, 0)
  const apart = /Not compared: 3 corrections of orders recorded in earlier months \(-60\.12345678 USD/
  assert.match(later.err, apart)
})

/** Compares January of a service with a list from a pipe. */
async function compareWith(service: Service, input: string, ...more: string[]) {
  const words = '--json billing reconcile --partner acme --month 2026-01 --against -'.split(' ')
  const { machine } = machineAt(service.now())
  const { out } = await runHere(['--db', service.file, ...words, ...more], { machine, input })
  return JSON.parse(out)
}

test('a kept report is named with the command that accepts it, and a further purchase is an order', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const [one = '', two = ''] = (await sendFirst(service, ['p', 'q'])).values()
  await succeed(service, 'POST', confirmPath(one), fill('first', '10.00'))
  await service.call('POST', confirmPath(one), fill('more', '5.00'))
  await service.call('POST', confirmPath(two), fill('over', '12.00'))
  const compare = (...more: string[]) =>
    compareWith(service, `${HEAD}first,10,0.001\nmore,5,0.001\nover,12,0.001\n`, ...more)
  const told = await compare()
  assert.deepEqual(each(told.findings, 'partner_order_id'), ['more', 'over'])
  const mends = told.findings.map(({ mend }: { mend: string }) => mend.replace(/^tranche .*?execution/, ''))
  assert.deepEqual(mends, [` accept-late ${one} --report 1`, ` accept-late ${two} --report 2`])
  await shell(service, ['execution', 'accept-late', one])
  await shell(service, ['execution', 'dismiss-late', two, '--reason', 'a test'])
  const after = await compare()
  assert.deepEqual(after.ours.orders, 2)
  const dismissed = ['over', `late fill 2 of ${two} was dismissed: a test`]
  assert.deepEqual(each(after.findings, 'partner_order_id', 'remark'), [dismissed])
  assert.equal((await compare('--env', 'test')).ours.orders, 0)
  const ofAll = ['billing', 'reconcile', '--month', '2026-01', '--against', '-']
  assert.equal((await command(service, ofAll)).code, 2)
})

test('an order that was adjusted together with others says so, because its share is unknown', async (t) => {
  const service = await startService(t, { environment: 'live' })
  const [one = ''] = (await sendFirst(service, ['p'])).values()
  await succeed(service, 'POST', confirmPath(one), fill('first', '10.00'))
  await service.call('POST', confirmPath(one), fill('more', '5.00'))
  await shell(service, ['execution', 'accept-late', one])
  const remarks = async () => {
    const { findings } = await compareWith(service, `${HEAD}first,9,0.001\nmore,4,0.001\n`)
    return findings.map(({ remark }: Finding) => /adjusted.*/.exec(remark ?? '')?.[0] ?? null)
  }
  assert.deepEqual(await remarks(), [null, null])
  await shell(service, ['trade', 'adjust', one, '--usd', '13', '--btc', '0.0002', '--reason', 'x'])
  assert.deepEqual(await remarks(), [
    'adjusted together with more: compare their sum',
    'adjusted together with first: compare their sum',
  ])
})

test('what cannot be read exactly is refused with its line', async (t) => {
  const office = await october(t)
  const row = (cells: string) => `${HEAD}A-1,250,0.00390625\n${cells}\n`
  const cases: [string | Buffer, RegExp][] = [
    ['', /line 1: the file is empty/],
    [
      'order,usd\n',
      /line 1: there is no column partner_order_id \(found: order, usd\); --column-order names/,
    ],
    [`${HEAD.trim()},usd_amount\n`, /line 1: two columns are called usd_amount/],
    [row('A-2,"1,234.50",1'), /line 3: usd_amount is "1,234\.50": an amount is a decimal/],
    [row('A-2,1e3,1'), /line 3: usd_amount is "1e3"/],
    [row('A-2,1,.5'), /line 3: btc_amount is "\.5"/],
    [row('A-2,10,'), /line 3: it has dollars or bitcoin alone/],
    [row('A-2,10'), /line 3: it has 2 cells, and the header 3/],
    [row('A-2,99999999999999,1'), /line 3: usd_amount is "99999999999999": no purchase is so large/],
    [row('A-2,"10,1\nB-1,1,1'), /line 3: a quote is never closed/],
    [row('A-2,1"0,1'), /line 3: a quote stands in the middle of a cell/],
    [row('A-2,"1"0,1'), /line 3: something follows the quote/],
    [row('"a\nb\r\nc",1,1\nA-2,x,1'), /line 6: usd_amount is "x"/],
    [
      '"partner_order_id";"usd_amount";"btc_amount"\n"A-1";"250";"0.1"\n',
      /line 1: its cells are separated by semicolons, not by commas: --delimiter ';' reads it/,
    ],
    [EQUAL.replaceAll(',', ';'), /line 1: its cells are separated by semicolons/],
    [EQUAL.replaceAll(',', '\t'), /line 1: its cells are separated by tabs/],
    [`${HEAD.replaceAll(',', ';')}"A;1";10,5;1\n`, /line 1: its cells are separated by semicolons/],
    [row('A-2,"10,50",1'), /line 3: usd_amount is "10,50": .* --decimal-comma reads it/],
    [row('A-2,"1,050",1'), /line 3: usd_amount is "1,050": an amount is a decimal such as 1234\.50\.$/],
    ['"order"x,usd\n', /line 1: something follows the quote/],
    [`partner_slug,${HEAD}bolt,A-1,1,1\n`, /line 2: partner_slug is "bolt", not acme/],
    [`environment,${HEAD}test,A-1,1,1\n`, /line 2: environment is "test", not live/],
    [
      Buffer.from([...Buffer.from(HEAD), 0x41, 0xff, 0x0a]),
      /orders\.csv is not UTF-8 text: save it as UTF-8\.$/,
    ],
  ]
  for (const [text, message] of cases) {
    const { code, err } = await against(office, text)
    assert.equal(code, 1, String(text))
    const { error } = JSON.parse(err)
    assert.equal(error.code, 'bad_file', err)
    assert.match(error.message, message)
  }
  const missing = await office.tranche(`${MINE} --against nowhere.csv`)
  assert.deepEqual([missing.code, missing.out], [4, ''])
  const folder = await office.tranche(`${MINE} --against ${office.folder}`)
  assert.deepEqual([folder.code, /is a folder, not a file\.$/m.test(folder.err)], [1, true], folder.err)
  for (const wrong of ['--column-usd x', '--against x --column-usd y --env both'])
    assert.equal((await office.tranche(`${MINE} ${wrong}`)).code, 2, wrong)
  const comma = ' --delimiter ; --decimal-comma'
  const dotted = await against(office, EQUAL.replaceAll(',', ';'), comma)
  assert.match(dotted.err, /line 2: btc_amount is .*: an amount is a decimal such as 1234,50/)
  assert.equal((await office.tranche(`${MINE} --against x --decimal-comma`)).code, 2)
  assert.equal((await office.tranche(`${MINE} --times spreadsheet`)).code, 2)
  assert.match((await against(office, EQUAL, ' --column-fee fee')).err, /line 1: there is no column fee/)
})

test('an order larger than any purchase is refused', async (t) => {
  const office = await october(t)
  const refused = await against(office, `${HEAD}${'H-1,9000000000,1\n'.repeat(12)}`)
  assert.equal(refused.code, 1)
  assert.match(refused.err, /The amounts of one order add up to more than any purchase/)
})

test('coins for no dollars, or dollars for no coins, are an order that is missing', async (t) => {
  const office = await october(t)
  assert.deepEqual(brief(await against(office, `${EQUAL}Z-8,0,0.001\nZ-9,5,0\n`)), [
    ['missing_here', 'Z-8', 6],
    ['missing_here', 'Z-9', 7],
  ])
})

test('an id that a spreadsheet changed is told beside the order that it was, without a command', async (t) => {
  const office = await openOffice(t, utc(2026, 8), ['acme'])
  const ids: [ours: string, theirs: string][] = [
    ['00546', '546'],
    ['AbC-9', 'abc-9'],
    [' B 1', 'B1'],
    ['100000', '1E5'],
    ['12345678901234567890', '1.23457E+19'],
    ['99345678901234567890', '99345678901234600000'],
  ]
  const btcAt = (n: number) => `0.0010000${n}`
  const ours = { user: 'ana', at: utc(2026, 9, 5, 9), usd: '7.08' }
  const entries = ids.map(([order], n) => ({ ...ours, order, btc: btcAt(n) }))
  office.enter('acme', 'live', entries)
  office.setClock(utc(2026, 10, 3))
  const rows = ids.map(([, order], n) => `"${order}",7.08,${btcAt(n)}`)
  // Equal amounts under another id, and a similar id with other amounts.
  rows.push(`X-7,7.08,${btcAt(0)}`, '0546,7.09,0.002')
  const told = await against(office, `${HEAD}${rows.join('\n')}\n`)
  assert.equal(told.code, 3)
  const of = Object.fromEntries(told.findings.map((one: Finding) => [one.partner_order_id, one]))
  for (const [ours, theirs] of ids) {
    const remark = (order: string, where: string) =>
      `same amounts as order ${order} of ${where}: a spreadsheet may have changed the id`
    assert.deepEqual([of[ours].remark, of[ours].mend], [remark(theirs, 'the file'), null])
    assert.deepEqual([of[theirs].remark, of[theirs].mend], [remark(ours, 'the ledger'), null])
  }
  for (const other of ['X-7', '0546']) assert.match(of[other].mend, /trade record /)
})

test('the rows of an order are added up before they are rounded', async (t) => {
  const office = await openOffice(t, utc(2026, 8), ['acme'])
  const at = utc(2026, 9, 5, 9)
  office.enter('acme', 'live', [{ user: 'ana', at, order: 'A', usd: '7.08', btc: '0.00011065' }])
  office.setClock(utc(2026, 10, 3))
  const told = await against(office, `${HEAD}A,3.54,0.000055325\nA,3.54,0.000055325\n`)
  assert.deepEqual([told.code, told.findings, told.theirs.btc_amount], [0, [], '0.00011065'])
  const rows = 'A,7.080000000000000001,0.000110654999\nA,-0.000000000000000001,0\n'
  const corrected = await against(office, `${HEAD}${rows}`)
  assert.deepEqual([corrected.code, corrected.theirs.usd_amount], [0, '7.08'])
})

test('a file with more unknown orders than a partner has is added up, and only the first are listed', async (t) => {
  const office = await october(t)
  const rows = Array.from({ length: UNKNOWN_MAX + 3 }, (_, i) => `X-${i},1.25,0.001`)
  const told = await against(office, `${EQUAL}${rows.join('\n')}\nX-17,1.00,0.001\n`)
  assert.deepEqual([told.code, told.findings.length, told.rows_not_listed], [3, UNKNOWN_MAX, 3])
  assert.deepEqual([told.missing_here.orders, told.missing_here.usd_amount], [UNKNOWN_MAX + 3, '125004.75'])
})
