// Invoices before they are issued: the same bytes forever, sums that add up, their page, and settings whose faults are
// named.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { confirmPath, PRICE, sendFirst, succeed } from '../http/steps.ts'
import { command, shell } from '../levers/steps.ts'
import { each } from '../store/world.ts'
import { temporaryFolder } from '../support/database.ts'
import { fill, type Service, startService } from '../support/service.ts'
import { type Office, openOffice, utc } from './books.ts'

type Json = Record<string, unknown> & {
  lines: { item: string; arithmetic: string; amount_usd: string }[]
  adjustments: Record<string, unknown>[]
  trades_export: { rows: number; sha256: string } | null
}

const PARTY = { name: 'Acme Ltd', address: ['1 High Street', 'London'] }
const SETTINGS = { issuer: { name: 'Issuer GmbH', address: ['Berlin'] }, partners: { acme: PARTY } }

/** acme's October with two trades and, if requested, adjustments: which trade, its new dollars, and the reason. */
async function october(
  t: Parameters<typeof openOffice>[0],
  adjustments: [trade: number, usd: string, reason: string][] = [],
): Promise<Office> {
  const office = await openOffice(t, utc(2026, 8), ['acme'])
  office.enter('acme', 'live', [{ user: 'u', at: utc(2026, 8, 20), usd: '500.00', btc: '0.008' }])
  office.enter('acme', 'live', [
    { user: 'u', at: utc(2026, 9, 5), usd: '100.00', btc: '0.0016', order: 'o<1>|*' },
    { user: 'v', at: utc(2026, 9, 6), usd: '2245.52', btc: '0.036', order: 'o2' },
  ])
  office.enter('acme', 'test', [{ user: 'u', at: utc(2026, 9, 7), usd: '9.00' }])
  office.setClock(utc(2026, 9, 20))
  const trades = await office.json('execution list --env live --json')
  for (const [trade, usd, reason] of adjustments) {
    const amounts = ['--usd', usd, '--btc', Number(usd) === 0 ? '0' : '0.001', '--reason', reason]
    await office.read(['trade', 'adjust', trades[trade].execution_id, ...amounts])
  }
  office.setClock(utc(2026, 10, 2))
  return office
}

const invoiceOf = async (office: Office, more = ''): Promise<Json> =>
  await office.json(`billing invoice --partner acme --month 2026-10 --format json${more}`)

const cents = (amount: string): number => Math.round(Number(amount) * 100)

test('the checksum is that of the exported file, byte by byte', async (t) => {
  const office = await october(t, [[1, '90.00', 'too much']])
  const file = join(office.folder, 'trades.csv')
  await office.read(
    `billing export --report trades --month 2026-10 --partner acme --env live --output ${file}`,
  )
  const { trades_export } = await invoiceOf(office)
  assert.equal(trades_export?.sha256, createHash('sha256').update(readFileSync(file)).digest('hex'))
  assert.equal(trades_export?.rows, 3)
})

test('the same bytes forever, in every format, whatever happens later', async (t) => {
  const office = await october(t, [[0, '400.00', 'wrong']])
  const settings = ` --settings ${office.settings(SETTINGS)}`
  const print = `billing invoice --partner acme --month 2026-10${settings}`
  const all = async () => {
    const read = []
    for (const format of ['html', 'md', 'json']) read.push(await office.read(`${print} --format ${format}`))
    return read
  }
  const before = await all()
  office.setClock(utc(2027, 3))
  office.enter('acme', 'live', [{ user: 'u', at: utc(2027, 2, 3), usd: '7.00' }])
  await office.read('tier set starter --rate-bps 10 --per-active-user-usd 3.00')
  await office.read('partner set-tier acme growth')
  await office.read('partner disable acme')
  const later = { ...PARTY, from: '2027-01', name: 'Acme plc' }
  office.settings({ ...SETTINGS, partners: { acme: [later, PARTY], 'new-one': PARTY } })
  assert.deepEqual(await all(), before)
  const april = await office.json(`billing invoice --partner acme --month 2027-03 --format json${settings}`)
  assert.equal(april.partner.name, 'Acme plc')
})

test('the lines add up to the total, which is that of the summary, and say how', async (t) => {
  const office = await october(t)
  const summaryFee = async () => (await office.json('billing show --month 2026-10 --json'))[0].total_fee_usd
  const plain = await invoiceOf(office)
  assert.deepEqual(each(plain.lines, 'item', 'arithmetic', 'amount_usd'), [
    ['Volume fee', '2,345.52 x 50 / 10,000 = 11.7276, rounded half-even to the cent', '11.73'],
    ['User fee', '2 active users x 0.00', '0.00'],
  ])
  assert.deepEqual([plain.total_fee_usd, await summaryFee()], ['11.73', '11.73'])

  const minimum = await openOffice(t, utc(2026, 9), ['acme'])
  await minimum.read('tier set starter --rate-bps 50 --per-active-user-usd 0.40 --monthly-minimum-usd 25.00')
  minimum.enter('acme', 'live', [{ user: 'u', at: utc(2026, 9, 5), usd: '2345.52' }])
  minimum.setClock(utc(2026, 10, 2))
  const raised = await invoiceOf(minimum)
  assert.deepEqual(raised.lines.at(-1), {
    item: 'Up to the monthly minimum',
    arithmetic: '25.00 - (11.73 + 0.40)',
    amount_usd: '12.87',
  })
  assert.equal(raised.total_fee_usd, '25.00')
  for (const { lines, total_fee_usd } of [plain, raised])
    assert.equal(
      lines.reduce((sum, { amount_usd }) => sum + cents(amount_usd), 0),
      cents(String(total_fee_usd)),
    )
})

test('it says which tier applies, and why', async (t) => {
  const office = await openOffice(t, utc(2026, 8), ['acme'])
  const tierIn = async (month: string) => {
    const invoice = await office.json(`billing invoice --partner acme --month ${month} --json`)
    return [invoice.pricing_tier, invoice.pricing_tier_reason]
  }
  await office.read('partner set-tier acme scale --from 2026-10')
  office.enter('acme', 'live', [{ user: 'u', at: utc(2026, 8, 5), usd: '1000000.00', btc: '16' }])
  office.setClock(utc(2026, 10, 2))
  assert.deepEqual(await tierIn('2026-09'), [
    'growth',
    'the volume of 1,000,000.00 reaches 1,000,000.00, where this tier begins, and no higher one',
  ])
  assert.deepEqual(await tierIn('2026-10'), ['scale', 'set for acme, whatever its volume'])
})

test('adjustments are there with their reason and what they correct, in their own month', async (t) => {
  const office = await october(t, [
    [0, '0', 'never settled'],
    [1, '95.00', '**paid** | [here](https://evil.example)'],
    [1, '90.00', '<script>alert(1)</script> | *bold*'],
  ])
  const invoice = await invoiceOf(office)
  assert.deepEqual(
    [invoice.fills_usd, invoice.adjustments_usd, invoice.volume_usd, invoice.adjustment_count],
    ['2345.52', '-510.00', '1835.52', 3],
  )
  const [old, , recent] = invoice.adjustments
  assert.deepEqual(
    [old?.reason, old?.usd_difference, old?.original_recorded_at, old?.original_usd_amount],
    ['never settled', '-500.00', '2026-09-20T00:00:00.000Z', '500.00'],
  )
  assert.equal(recent?.original_order_id, 'o<1>|*')
  assert.deepEqual((await invoiceOf(office)).adjustments.length, 3)
  const read = (format: string) =>
    office.read(`billing invoice --partner acme --month 2026-10 --format ${format}`)
  const [html, md] = [await read('html'), await read('md')]
  assert.ok(html.includes('&lt;script&gt;alert(1)&lt;/script&gt; | *bold*'))
  assert.ok(!html.includes('<script'))
  assert.ok(md.includes('\\<script\\>alert(1)\\</script\\> \\| \\*bold\\*'))
  assert.ok(md.includes('| \\*\\*paid\\*\\* \\| \\[here\\](https://evil.example) |'))
  assert.ok(md.includes('Order o\\<1\\>\\|\\*, confirmed 2026-10-05: from 100.00 USD for 0.00160000 BTC to'))
  const september = await office.json('billing invoice --partner acme --month 2026-09 --format json')
  assert.deepEqual([september.adjustments, september.volume_usd], [[], '500.00'])
})

test('a month below zero is charged nothing, and says that nothing is carried over', async (t) => {
  const office = await openOffice(t, utc(2026, 8), ['acme'])
  office.enter('acme', 'live', [{ user: 'u', at: utc(2026, 8, 20), usd: '500.00', btc: '0.008' }])
  office.setClock(utc(2026, 9, 20))
  const [{ execution_id }] = await office.json('execution list --json')
  await office.read(`trade adjust ${execution_id} --usd 0 --btc 0 --reason never`)
  office.setClock(utc(2026, 10, 2))
  const { lines, total_fee_usd } = await invoiceOf(office)
  assert.deepEqual(lines[0], {
    item: 'Volume fee',
    arithmetic: '-500.00 is below zero and charged as 0.00; nothing is carried over',
    amount_usd: '0.00',
  })
  assert.equal(total_fee_usd, '0.00')
})

const ofAcme = (acme: unknown) => ({ ...SETTINGS, partners: { acme } })
const ofIssuer = (more: object) => ({ ...SETTINGS, issuer: { ...PARTY, ...more } })
const WRONG: [settings: unknown, complaint: RegExp][] = [
  ['{"issuer": ', /is not JSON: /],
  ['[]', / must be an object\.$/],
  [{ partners: {} }, /: issuer is missing\.$/],
  [ofIssuer({ page: 'A5' }), /issuer\.page must be A4 or Letter\.$/],
  [{ ...SETTINGS, tax: 1 }, /has unknown settings: tax\.$/],
  [{ ...SETTINGS, partners: {} }, /partners\.acme has no entry for 2026-10\.$/],
  [ofAcme({ ...PARTY, name: '' }), /partners\.acme\.name must not be empty/],
  [ofAcme({ ...PARTY, address: 'x' }), /partners\.acme\.address must be a list/],
  [ofAcme({ ...PARTY, address: ['a', 5] }), /partners\.acme\.address\[1\] must be text/],
  [ofAcme({ ...PARTY, name: 'a\nb' }), /partners\.acme\.name must be one line/],
  [ofAcme({ ...PARTY, from: '2026-13' }), /partners\.acme\.from must be a month/],
  [ofAcme({ ...PARTY, from: '2026-11' }), /acme has no entry for 2026-10\.$/],
  [ofAcme([PARTY, { ...PARTY, from: '2027-01', vat: 1 }]), /partners\.acme\[1\] has .*: vat\.$/],
  [ofAcme([PARTY, PARTY]), /partners\.acme has two entries that begin in the same/],
  [ofAcme([]), /partners\.acme must not be empty/],
  [{ ...SETTINGS, partners: { 'Acme Ltd': PARTY } }, /partners\.Acme Ltd is not the slug of a partner/],
  [ofIssuer({ notes: ['x'.repeat(201)] }), /issuer\.notes\[0\] must be at most 200 char/],
  [ofIssuer({ notes: Array(21).fill('x') }), /issuer\.notes must be at most 20 lines/],
]

test('a fault of the settings is an error that names the file and the field, and there is no invoice', async (t) => {
  const office = await october(t)
  for (const [settings, complaint] of WRONG) {
    const file = office.settings(settings)
    const { code, out, err } = await office.tranche(
      `billing invoice --partner acme --month 2026-10 --settings ${file} --output ${office.folder}/no.html`,
    )
    assert.deepEqual([code, out], [1, ''], String(complaint))
    assert.ok(err.startsWith(`error: ${file}`), err)
    assert.match(err.trimEnd(), complaint)
    assert.doesNotMatch(err, /Invalid input/, err)
  }
  assert.ok(!readdirSync(office.folder).includes('no.html'))
})

test('there is no invoice of nobody, of a month before, or of a test environment', async (t) => {
  const office = await october(t)
  for (const [argv, wanted] of [
    ['--partner nobody --month 2026-10', 4],
    ['--partner acme --month 2026-08', 4],
    ['--partner acme --month 2026-10 --env test', 2],
  ] as const)
    assert.equal((await office.tranche(`billing invoice ${argv}`)).code, wanted, argv)
  assert.equal((await invoiceOf(office)).volume_usd, '2345.52', 'no test trade is in it')
})

// An invoice as its customer reads it: each line of one order, amounts in cents that add up, nothing for the operator,
// and nothing to pay while the month can change.

const TERMS = 'Please pay within 14 days.'
const CUSTOMER = { name: 'Acme Ltd', address: ['London'] }
const PAGE_SETTINGS = {
  issuer: { name: 'Issuer GmbH', address: ['Berlin'], notes: [TERMS] },
  partners: { acme: CUSTOMER },
}

const order = (id: string, usd: string, btc: string) => ({ ...fill(id, usd), btc_amount: btc })

/** Two orders of one instruction, one accepted late; one order that failed and had filled; one adjusted twice. */
async function january(t: TestContext): Promise<Service> {
  const service = await startService(t, { environment: 'live' })
  const [two = '', failed = '', twice = ''] = (await sendFirst(service, ['p', 'q', 'r'])).values()
  const say = (id: string, body: object) => service.call('POST', confirmPath(id), body)
  const adjust = (id: string, usd: string, btc: string, reason: string) =>
    shell(service, ['trade', 'adjust', id, '--usd', usd, '--btc', btc, '--reason', reason])
  await succeed(service, 'POST', confirmPath(two), order('bolt-84', '9.72630392', '0.00014539'))
  await say(two, order('over-1', '515.55', '0.0025'))
  await shell(service, ['execution', 'accept-late', two])
  await succeed(service, 'POST', confirmPath(failed), { partner_order_id: 'nil-1', status: 'failed' })
  await say(failed, order('nil-1', '8.12945678', '0.0001'))
  await shell(service, ['execution', 'accept-late', failed])
  await succeed(service, 'POST', confirmPath(twice), order('two-1', '10.00', '0.0002'))
  await adjust(twice, '9.505', '0.00019', 'a first try')
  await adjust(twice, '9.005', '0.00018', 'the venue filled 9.00')
  // After a further purchase, an operator reports both orders in one sum.
  await adjust(two, '520.00', '0.0026', 'both by the statement of the venue')
  return service
}

/** The settings of every invoice here, in a folder that is removed after the test. */
const settings = (t: TestContext): string => {
  const file = join(temporaryFolder(t), 'billing.json')
  writeFileSync(file, JSON.stringify(PAGE_SETTINGS))
  return file
}

const invoice = (t: TestContext, service: Service, format: string) =>
  shell(service, [
    ...['billing', 'invoice', '--partner', 'acme', '--month', '2026-01', '--format', format],
    ...['--settings', settings(t)],
  ])

async function closed(t: TestContext): Promise<Service> {
  const service = await january(t)
  service.setClock(utc(2026, 1, 2))
  await service.tick(PRICE)
  return service
}

const centsOf = (amount: string): bigint => {
  assert.match(amount, /^-?\d+\.\d{2}$/, 'money has two decimals')
  return BigInt(amount.replace('.', ''))
}

/** The cells of a Markdown table below the heading. */
const rowsUnder = (md: string, heading: string): string[][] =>
  (md.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '')
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(1)
    .map((line) => line.slice(2, -2).split(' | '))

test('the line of an adjustment is about its own order: what it came to before, and after', async (t) => {
  const service = await closed(t)
  const rows = rowsUnder(await invoice(t, service, 'md'), 'Adjustments recorded in this month')
  const said = rows.map(
    ([, what = '', , usd, btc]) => `${what.replace(/ \(exec_\w+\)$/, '')}: ${usd}, ${btc}`,
  )
  const two = 'Order two-1, confirmed 2026-01-05: from'
  assert.deepEqual(said.toSorted(), [
    'Order nil-1, confirmed 2026-01-05 as failed: from nothing to 8.12 USD for 0.00010000 BTC: 8.12, 0.00010000',
    'Order over-1, a further purchase: from nothing to 515.55 USD for 0.00250000 BTC: 515.55, 0.00250000',
    `${two} 10.00 USD for 0.00020000 BTC to 9.50 USD for 0.00019000 BTC: -0.50, -0.00001000`,
    `${two} 9.50 USD for 0.00019000 BTC to 9.00 USD for 0.00018000 BTC: -0.50, -0.00001000`,
    'Orders bolt-84 and over-1 together: from 525.27 USD for 0.00264539 BTC to 520.00 USD for 0.00260000 BTC' +
      ': -5.27, -0.00004539',
  ])
  const { adjustments } = JSON.parse(await invoice(t, service, 'json'))
  const further = adjustments.find((one: { orders: string[] }) => one.orders.join() === 'over-1')
  assert.deepEqual(
    [further.usd_amount_before, further.usd_amount, further.btc_amount_before, further.btc_amount],
    ['0.00', '515.55', '0.00000000', '0.00250000'],
  )
})

test('every amount of money has two decimals, and the sums add up', async (t) => {
  const service = await closed(t)
  const md = await invoice(t, service, 'md')
  const volume = rowsUnder(md, 'Volume')
  const items = ['Filled and partly filled trades: 2', 'Adjustments: 5', 'Fractions of a cent', 'Volume']
  assert.deepEqual(each(volume, 0), items)
  const [, adjusted, , total] = volume.map(([, usd = '']) => centsOf(usd))
  const sumOf = (rows: string[][], column: number) =>
    rows.reduce((sum, cells) => sum + centsOf(cells[column] ?? ''), 0n)
  assert.equal(sumOf(volume.slice(0, -1), 1), total)
  assert.equal(sumOf(rowsUnder(md, 'Adjustments recorded in this month'), 3), adjusted)
  assert.match(md, /Fractions of a cent in trades are cut off on this page/)
  const html = await invoice(t, service, 'html')
  for (const text of [md, html]) assert.deepEqual(text.match(/\d\.\d{3,} USD/g), null)
  // A month in whole cents needs no note about them.
  const plain = await startService(t, { environment: 'live' })
  const [id = ''] = (await sendFirst(plain, ['p'])).values()
  await succeed(plain, 'POST', confirmPath(id), fill('o1', '9.00'))
  plain.setClock(utc(2026, 1, 2))
  await plain.tick(PRICE)
  assert.doesNotMatch(await invoice(t, plain, 'md'), /[Ff]ractions of a cent/)
})

test('the arithmetic of the fee has more decimals only where two would give another fee', async (t) => {
  const arithmetic = async (...fills: string[]) => {
    const service = await startService(t, { environment: 'live' })
    const plans = fills.map((_, i) => `p${i}`)
    const sent = [...(await sendFirst(service, plans)).values()]
    for (const [i, usd] of fills.entries())
      await succeed(service, 'POST', confirmPath(sent[i] ?? ''), order(`o${i}`, usd, '0.0002'))
    service.setClock(utc(2026, 1, 2))
    await service.tick(PRICE)
    return JSON.parse(await invoice(t, service, 'json')).lines[0].arithmetic
  }
  assert.equal(await arithmetic('9.72630392'), '9.72 x 50 / 10,000 = 0.0486, rounded half-even to the cent')
  // 7.00 would be 0.035 and 0.04 too; 8.99 rounds to 0.04, but this volume to 0.05.
  assert.equal(
    await arithmetic('9.00000001'),
    '9.00000001 x 50 / 10,000 = 0.04500000005, rounded half-even to the cent',
  )
})

test('a provisional invoice has no number, no date and no terms of payment', async (t) => {
  const service = await january(t)
  service.setClock(utc(2026, 0, 20))
  await service.tick(PRICE)
  for (const format of ['html', 'md', 'json']) {
    const text = await invoice(t, service, format)
    for (const final of ['acme-2026-01', TERMS, 'Invoice date', 'pay it'])
      assert.ok(!text.includes(final), `${format}: ${final}`)
    if (format === 'json') continue
    assert.ok(!text.includes('2026-02-01'), format)
    assert.match(text, /Provisional.*2026-01 can still change\./)
  }
  const json = JSON.parse(await invoice(t, service, 'json'))
  assert.deepEqual(
    [json.invoice_number, json.invoice_date, json.final, json.trades_export],
    [null, null, false, null],
  )
  const coming = ['billing', 'invoice', '--partner', 'acme', '--month', '2026-02', '--format', 'md']
  const { out } = await command(service, coming)
  assert.match(out, /2026-02 can still change\. Nothing of it is recorded yet\./)
  const file = join(temporaryFolder(t), 'so-far.html')
  const argv = ['billing', 'invoice', '--partner', 'acme', '--month', '2026-01', '--output', file]
  assert.match((await command(service, argv)).err, /Provisional invoice of 2\.69 USD in .*so-far\.html\./)
})

test('no command is on the page, and only adjustments can be on a page of their own', async (t) => {
  const service = await closed(t)
  for (const format of ['html', 'md']) {
    const text = await invoice(t, service, format)
    assert.doesNotMatch(text, /tranche |--month|[Cc]ommand/)
    const places = ['Total', TERMS, 'Volume</h2>', '## Volume', 'checksum', 'Order two-1'].map((word) =>
      text.indexOf(word),
    )
    const found = places.filter((at) => at >= 0)
    assert.deepEqual([found.length, found.toSorted((a, b) => a - b)], [5, found])
  }
})
