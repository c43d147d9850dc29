// Invoices: the same bytes forever, an arithmetic that adds up, and settings whose faults are named.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { machineAt } from '../../src/machine.ts'
import { runHere } from '../support/service.ts'
import { type Office, openOffice, utc } from './books.ts'

type Json = Record<string, unknown> & {
  lines: { item: string; arithmetic: string; amount_usd: string }[]
  adjustments: Record<string, unknown>[]
  trades_export: { rows: number; sha256: string } | null
}

const PARTY = { name: 'Acme Ltd', address: ['1 High Street', 'London'] }
const SETTINGS = { issuer: { name: 'Issuer GmbH', address: ['Berlin'] }, partners: { acme: PARTY } }

/** acme's October with two trades and, if asked for, adjustments: of what trade to which dollars, and why. */
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
  const trades = JSON.parse(await office.read('execution list --env live --json'))
  const { machine } = machineAt(utc(2026, 9, 20))
  for (const [trade, usd, reason] of adjustments) {
    const argv = ['trade', 'adjust', trades[trade].execution_id, '--usd', usd]
    const btc = Number(usd) === 0 ? '0' : '0.001'
    const { code, err } = await runHere(['--db', office.file, ...argv, '--btc', btc, '--reason', reason], {
      machine,
    })
    assert.equal(code, 0, err)
  }
  office.setClock(utc(2026, 10, 2))
  return office
}

const invoiceOf = async (office: Office, more = ''): Promise<Json> =>
  JSON.parse(await office.read(`billing invoice --partner acme --month 2026-10 --format json${more}`))

function settingsFile(office: Office, settings: unknown): string {
  const file = join(office.folder, 'billing.json')
  writeFileSync(file, typeof settings === 'string' ? settings : JSON.stringify(settings))
  return file
}

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
  const settings = ` --settings ${settingsFile(office, SETTINGS)}`
  const formats = ['html', 'md', 'json']
  const all = async () => {
    const read = []
    for (const format of formats)
      read.push(
        await office.read(`billing invoice --partner acme --month 2026-10 --format ${format}${settings}`),
      )
    return read
  }
  const before = await all()
  office.setClock(utc(2027, 3))
  office.enter('acme', 'live', [{ user: 'u', at: utc(2027, 2, 3), usd: '7.00' }])
  await office.read('tier set starter --rate-bps 10 --per-active-user-usd 3.00')
  await office.read('partner set-tier acme growth')
  await office.read('partner disable acme')
  const later = { ...PARTY, from: '2027-01', name: 'Acme plc' }
  settingsFile(office, { ...SETTINGS, partners: { acme: [later, PARTY], 'new-one': PARTY } })
  assert.deepEqual(await all(), before)
  const april = JSON.parse(
    await office.read(`billing invoice --partner acme --month 2027-03 --format json${settings}`),
  )
  assert.equal(april.partner.name, 'Acme plc')
})

test('the lines add up to the total, which is that of the summary, and say how', async (t) => {
  const office = await october(t)
  const summaryFee = async () =>
    JSON.parse(await office.read('billing show --month 2026-10 --json'))[0].total_fee_usd
  const plain = await invoiceOf(office)
  assert.deepEqual(
    plain.lines.map(({ item, arithmetic, amount_usd }) => [item, arithmetic, amount_usd]),
    [
      ['Volume fee', '2,345.52 x 50 / 10,000 = 11.7276, rounded half-even to the cent', '11.73'],
      ['User fee', '2 active users x 0.00', '0.00'],
    ],
  )
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
  const reasonIn = async (month: string) =>
    JSON.parse(await office.read(`billing invoice --partner acme --month ${month} --json`))
  await office.read('partner set-tier acme scale --from 2026-10')
  office.enter('acme', 'live', [{ user: 'u', at: utc(2026, 8, 5), usd: '1000000.00', btc: '16' }])
  office.setClock(utc(2026, 10, 2))
  const [september, october] = [await reasonIn('2026-09'), await reasonIn('2026-10')]
  assert.deepEqual(
    [september.pricing_tier, september.pricing_tier_reason],
    ['growth', 'the volume of 1,000,000.00 reaches 1,000,000.00, where this tier begins, and no higher one'],
  )
  assert.deepEqual(
    [october.pricing_tier, october.pricing_tier_reason],
    ['scale', 'set for acme, whatever its volume'],
  )
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
  const september = JSON.parse(
    await office.read('billing invoice --partner acme --month 2026-09 --format json'),
  )
  assert.deepEqual([september.adjustments, september.volume_usd], [[], '500.00'])
})

test('a month below zero is charged nothing, and says that nothing is carried over', async (t) => {
  const office = await openOffice(t, utc(2026, 8), ['acme'])
  office.enter('acme', 'live', [{ user: 'u', at: utc(2026, 8, 20), usd: '500.00', btc: '0.008' }])
  office.setClock(utc(2026, 9, 20))
  const [{ execution_id }] = JSON.parse(await office.read('execution list --json'))
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

test('a month that is not over is provisional, everywhere, and has no checksum', async (t) => {
  const office = await october(t)
  office.setClock(utc(2026, 10, 15))
  const argv = 'billing invoice --partner acme --month 2026-11'
  const json = JSON.parse(await office.read(`${argv} --json`))
  assert.deepEqual([json.final, json.trades_export], [false, null])
  for (const format of ['html', 'md']) {
    const { out, err } = await office.tranche(`${argv} --format ${format}`)
    assert.match(out, /Provisional invoice/)
    assert.match(out, /2026-11 can still change/)
    assert.match(out, /recorded until 2026-11-15T00:00:00\.000Z/)
    assert.match(err, /2026-11 is not over yet/)
  }
  // Of a month that lies ahead there is no instant until which anything was recorded.
  const { out } = await office.tranche('billing invoice --partner acme --month 2026-12')
  assert.match(out, /2026-12 can still change\. Nothing of it is recorded yet\./)
  assert.doesNotMatch(await office.read('billing invoice --partner acme --month 2026-10'), /[Pp]rovisional/)
})

test('a file is private, appears whole, and is replaced only when told to', async (t) => {
  const office = await october(t)
  const file = join(office.folder, 'acme.html')
  const argv = `billing invoice --partner acme --month 2026-10 --output ${file}`
  assert.match(
    (await office.tranche(argv)).err,
    /^Without --settings .*\nInvoice acme-2026-10 of 11\.73 USD in /,
  )
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.equal((await office.tranche(argv)).code, 5)
  assert.equal((await office.tranche(`${argv} --force`)).code, 0)
  assert.equal(
    readFileSync(file, 'utf8'),
    await office.read('billing invoice --partner acme --month 2026-10'),
  )
  assert.equal((await office.tranche(`${argv} --force`.replace(file, office.file))).code, 2)
})

const WRONG: [settings: unknown, complaint: RegExp][] = [
  ['{"issuer": ', /is not JSON: /],
  ['[]', / must be an object\.$/],
  [{ partners: {} }, /: issuer is missing\.$/],
  [{ issuer: PARTY }, /: partners is missing\.$/],
  [{ ...SETTINGS, tax: 1 }, /has unknown settings: tax\.$/],
  [{ ...SETTINGS, partners: {} }, /partners\.acme has no entry for 2026-10\.$/],
  [{ ...SETTINGS, partners: { acme: { ...PARTY, name: '' } } }, /partners\.acme\.name must not be empty/],
  [{ ...SETTINGS, partners: { acme: { name: 'A' } } }, /partners\.acme\.address is missing\.$/],
  [{ ...SETTINGS, partners: { acme: { ...PARTY, address: 'x' } } }, /partners\.acme\.address must be a list/],
  [
    { ...SETTINGS, partners: { acme: { ...PARTY, address: ['a', 5] } } },
    /partners\.acme\.address\[1\] must be text/,
  ],
  [{ ...SETTINGS, partners: { acme: { ...PARTY, name: 'a\nb' } } }, /partners\.acme\.name must be one line/],
  [
    { ...SETTINGS, partners: { acme: { ...PARTY, from: '2026-13' } } },
    /partners\.acme\.from must be a month/,
  ],
  [{ ...SETTINGS, partners: { acme: { ...PARTY, from: '2026-11' } } }, /acme has no entry for 2026-10\.$/],
  [
    { ...SETTINGS, partners: { acme: [PARTY, { ...PARTY, from: '2027-01', vat: 1 }] } },
    /partners\.acme\[1\] has .*: vat\.$/,
  ],
  [
    { ...SETTINGS, partners: { acme: [PARTY, PARTY] } },
    /partners\.acme has two entries that begin in the same/,
  ],
  [{ ...SETTINGS, partners: { acme: [] } }, /partners\.acme must not be empty/],
  [{ ...SETTINGS, partners: { 'Acme Ltd': PARTY } }, /partners\.Acme Ltd is not the slug of a partner/],
  [
    { ...SETTINGS, issuer: { ...PARTY, notes: ['x'.repeat(201)] } },
    /issuer\.notes\[0\] must be at most 200 char/,
  ],
  [
    { ...SETTINGS, issuer: { ...PARTY, notes: Array(21).fill('x') } },
    /issuer\.notes must be at most 20 lines/,
  ],
]

test('a fault of the settings is an error that names the file and the field, and there is no invoice', async (t) => {
  const office = await october(t)
  for (const [settings, complaint] of WRONG) {
    const file = settingsFile(office, settings)
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
    ['--partner acme', 2],
    ['--month 2026-10', 2],
  ] as const)
    assert.equal((await office.tranche(`billing invoice ${argv}`)).code, wanted, argv)
  assert.equal((await invoiceOf(office)).volume_usd, '2345.52', 'no test trade is in it')
})
