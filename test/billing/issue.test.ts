// Issued invoices: numbers, tax, particulars that the issuer's law requires, credit notes, and the index of all.

import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { each } from '../store/world.ts'
import { type Office, openOffice, utc } from './books.ts'

const ISSUER = {
  name: 'Tranche Services GmbH',
  address: ['Berlin'],
  country: 'DE',
  tax_id: 'DE 123 456 789',
  due_days: 14,
  notes: ['Pay to DE89.'],
  numbers: { prefix: 'R-2026-' },
}
const SETTINGS = {
  issuer: ISSUER,
  partners: {
    acme: { name: 'Acme GmbH', address: ['Köln'], country: 'DE', tax: { rate: '19' } },
    bolt: {
      name: 'Bolt BV',
      address: ['Amsterdam'],
      country: 'NL',
      tax_id: 'NL 0012.34567.B01',
      due_days: 30,
      tax: 'reverse-charge',
    },
    core: { name: 'Core Inc', address: ['Dover'], country: 'US', tax: { exempt: 'Not subject to VAT.' } },
    idle: { name: 'Idle', address: ['Nowhere'], country: 'FR', tax: 'reverse-charge' },
  },
}

/** Four partners with an October, one of whom owes nothing, seen from November. */
async function november(t: Parameters<typeof openOffice>[0]): Promise<Office> {
  const office = await openOffice(t, utc(2026, 8), ['acme', 'bolt', 'core', 'idle'])
  for (const [slug, usd] of Object.entries({ acme: '1234567.89', bolt: '10000.00', core: '400.00' }))
    office.enter(slug, 'live', [{ user: 'u', at: utc(2026, 9, 5), usd, btc: '0.5' }])
  office.setClock(utc(2026, 10, 3))
  return office
}

type Row = Record<string, string | null> & { is_new?: boolean }
const rowsOf = async (office: Office, argv: string): Promise<Row[]> => await office.json(`--json ${argv}`)
const short = (rows: Row[]) =>
  rows.map((row) =>
    [row.invoice_number, row.partner_slug, row.net_usd, row.tax_usd, row.total_usd, row.due_date].join(' '),
  )

const OCTOBER = [
  'R-2026-0001 acme 4320.99 820.99 5141.98 2026-11-17',
  'R-2026-0002 bolt 50.00 0.00 50.00 2026-12-03',
  'R-2026-0003 core 2.00 0.00 2.00 2026-11-17',
]

test('numbers are given to a month once, in the order of the partners, and printed for ever', async (t) => {
  const office = await november(t)
  const settings = office.settings(SETTINGS)
  const issue = `billing issue --month 2026-10 --settings ${settings}`
  const page = 'billing invoice --partner acme --month 2026-10 --format md'
  const draft = await office.tranche(`${page} --settings ${settings}`)
  const unnumbered = '# Draft of an invoice\n\n**Draft: this is not an invoice yet. It has no number.**'
  assert.ok(draft.out.startsWith(unnumbered), draft.out)
  assert.doesNotMatch(draft.out, /Pay to|Due date|Invoice date/)
  assert.match(draft.err, /tranche billing issue gives the invoice its number/)
  const one = await office.tranche(`${issue} --partner bolt`)
  assert.match(one.err, /^1 invoice issued\.\n$/)
  assert.match(one.out, /R-2026-0001 +2026-11-03 +2026-12-03 +bolt/)
  assert.deepEqual(each(await rowsOf(office, issue), 'invoice_number', 'partner_slug', 'is_new'), [
    ['R-2026-0002', 'acme', true],
    ['R-2026-0001', 'bolt', false],
    ['R-2026-0003', 'core', true],
  ])
  const all = await office.tranche(issue)
  assert.match(all.err, /^0 invoices issued, 3 had been issued before; nothing is owed by idle\.\n$/)
  const printed = await office.read(page)
  assert.match(printed, /^# Invoice R-2026-0002\n/)
  for (const line of [
    /^\| Invoice date \| 2026-11-03 \|$/m,
    /^\| Due date \| 2026-11-17 \|$/m,
    /^\| Volume fee \| 1,234,567\.89 x 35 \/ 10,000 = 4,320\.987615, rounded half-even to the cent \| 4,320\.99 \|$/m,
    /^\| Net amount \| {2}\| 4,320\.99 \|$/m,
    /^\| VAT \| 19 % of 4,320\.99 \| 820\.99 \|$/m,
    /^\| \*\*Total, USD\*\* \| {2}\| 5,141\.98 \|$/m,
    /VAT number DE 123 456 789/,
    /^\| For \| Timing of recurring Bitcoin purchases, October 2026, 1 purchase of 1 user \|$/m,
    /Pay to DE89/,
  ])
    assert.match(printed, line)
  assert.doesNotMatch(printed, /without tax/)
  const reversed = await office.read('billing invoice --number R-2026-0001 --format md')
  assert.match(reversed, /Reverse charge: the customer owes the VAT \(Articles 44 and 196/)
  assert.match(reversed, /VAT number NL 0012\.34567\.B01/)
  assert.doesNotMatch(reversed, /\| VAT \|/)
  assert.match(await office.read('billing invoice --number R-2026-0003 --format md'), /Not subject to VAT\./)
  // Years later, with other settings or none, the page is unchanged.
  office.setClock(utc(2029, 1))
  const changed = office.settings({
    issuer: { ...ISSUER, name: 'Other', tax_id: 'DE 9', due_days: 3 },
    partners: { acme: { ...SETTINGS.partners.acme, tax: { rate: '25' } } },
  })
  assert.equal(await office.read(page), printed)
  const later = await office.tranche(`${page} --settings ${changed}`)
  assert.equal(later.out, printed)
  assert.match(later.err, /R-2026-0002 was issued: names, addresses and tax are as they were then/)
  assert.match(await office.read('billing reconcile --month 2026-10'), /agree/)
})

test('an invoice says what was rendered and what a customer asked for, and no line says nothing', async (t) => {
  const office = await november(t)
  office.setClock(utc(2026, 8, 2))
  await office.read('tier set least --rate-bps 0 --monthly-minimum-usd 25.00')
  await office.read('partner set-tier idle least')
  office.setClock(utc(2026, 10, 3))
  const { core, idle } = SETTINGS.partners
  const settings = office.settings({
    issuer: { ...ISSUER, description: 'Timing of savings', page: 'Letter' },
    partners: {
      ...SETTINGS.partners,
      core: {
        ...core,
        tax_id: '12-3456789',
        tax: { rate: '7.25', label: 'Sales tax' },
        reference: 'PO 4711',
        note: 'As agreed in May.',
      },
      idle: { ...idle, tax_id: 'FR 12 345678901' },
    },
  })
  await office.read(`billing issue --month 2026-10 --settings ${settings}`)
  const page = (number: string, format: string) =>
    office.read(`billing invoice --number R-2026-000${number} --format ${format}`)
  const ofCore = await page('3', 'md')
  for (const line of [
    /^\| For \| Timing of savings, October 2026, 1 purchase of 1 user \|$/m,
    /^\| Your reference \| PO 4711 \|$/m,
    /^\| Sales tax \| 7\.25 % of 2\.00 \| 0\.15 \|$/m,
    /^As agreed in May\.$/m,
    /^Tax id 12-3456789$/m,
  ])
    assert.match(ofCore, line)
  assert.match(await page('3', 'html'), /@page \{ size: Letter;/)
  const ofIdle = await page('4', 'md')
  assert.match(ofIdle, /^\| For \| Timing of savings, October 2026 \|$/m)
  assert.match(ofIdle, /^\| Monthly minimum \| {2}\| 25\.00 \|$/m)
  for (const text of [ofCore, ofIdle])
    assert.doesNotMatch(text, /None|: 0 |\| 0\.00 \|$|: `0`|\b0 (active|purchases)/m)
  await office.read(`billing credit R-2026-0003 --usd 1.00 --reason discount --settings ${settings}`)
  assert.match(await page('5', 'md'), /^\| Your reference \| PO 4711 \|$/m)
  assert.match(await page('5', 'md'), /^\| Sales tax \| 7\.25 % of 1\.00 \| 0\.0[78] \|$/m)
})

test('all invoices of a month are written by one command, and none while one could not be', async (t) => {
  const office = await november(t)
  const settings = office.settings(SETTINGS)
  await office.read(`billing issue --month 2026-10 --settings ${settings}`)
  const folder = join(office.folder, 'invoices')
  const write = `billing invoice --month 2026-10 --settings ${settings} --output-dir ${folder}`
  const { code, out, err } = await office.tranche(write)
  assert.deepEqual([code, out], [0, ''])
  assert.match(err, /Nothing is owed by idle\.\n3 invoices written to .*invoices\n$/)
  const names = ['acme-2026-10.html', 'bolt-2026-10.html', 'core-2026-10.html']
  assert.deepEqual(readdirSync(folder).sort(), names)
  assert.match(readFileSync(join(folder, 'acme-2026-10.html'), 'utf8'), /<p>R-2026-0001<\/p>/)
  writeFileSync(join(folder, 'acme-2026-10.html'), 'edited')
  const again = await office.tranche(write)
  assert.deepEqual([again.code, readFileSync(join(folder, 'acme-2026-10.html'), 'utf8')], [5, 'edited'])
  assert.deepEqual(each(await rowsOf(office, `${write} --force`), 'invoice_number', 'total_usd'), [
    ['R-2026-0001', '5141.98'],
    ['R-2026-0002', '50.00'],
    ['R-2026-0003', '2.00'],
  ])
})

test('a credit note names the invoice that it corrects, and an index has both, by the date of the issue', async (t) => {
  const office = await november(t)
  const settings = office.settings({
    ...SETTINGS,
    issuer: [ISSUER, { ...ISSUER, from: '2027-01', numbers: { prefix: 'R-2027-', digits: 2 } }],
  })
  await office.read(`billing issue --month 2026-10 --settings ${settings}`)
  office.setClock(utc(2027, 0, 5))
  const credit = (number: string, usd: string) =>
    office.tranche(`--json billing credit ${number} --usd ${usd} --reason overcharged --settings ${settings}`)
  assert.deepEqual(JSON.parse((await credit('R-2026-0001', '1000.01')).out), {
    invoice_number: 'R-2027-01',
    invoice_date: '2027-01-05',
    due_date: null,
    partner_slug: 'acme',
    month: '2026-10',
    corrects: 'R-2026-0001',
    net_usd: '-1000.01',
    tax_usd: '-190.00',
    total_usd: '-1190.01',
    warnings: [],
  })
  for (const [number, usd, code, message] of [
    ['R-2026-0001', '3320.99', 5, /can be credited with 0\.01 to 3320\.98, what earlier credit notes/],
    // A repeated request, as after a lost answer.
    [
      'R-2026-0001',
      '1000.01',
      5,
      /R-2027-01 has already credited 1000\.01 for the same reason: give another/,
    ],
    ['R-2027-01', '1.00', 5, /R-2027-01 is a credit note/],
    ['R-2026-0009', '1.00', 4, /Invoice R-2026-0009 not found/],
  ] as const) {
    const refused = await credit(number, usd)
    assert.deepEqual([refused.code, refused.out], [code, ''])
    assert.match(refused.err, message)
  }
  const page = await office.read('billing invoice --number R-2027-01 --format md')
  for (const line of [
    /^# Credit note R-2027-01\n/,
    /^\| Corrects \| Invoice R-2026-0001 of 2026-11-03, for 2026-10 \|$/m,
    /^\| Why \| overcharged \|$/m,
    /^\| Correction of the fees \| of 4,320\.99 invoiced \| 1,000\.01 \|$/m,
    /^\| VAT \| 19 % of 1,000\.01 \| 190\.00 \|$/m,
    /^\| \*\*Total credited, USD\*\* \| {2}\| 1,190\.01 \|$/m,
  ])
    assert.match(page, line)
  const html = await office.read('billing invoice --number R-2027-01')
  assert.match(html, /<h1>Credit note<\/h1><p>R-2027-01<\/p>/)
  const { corrects, reason, partner } = await office.json('billing invoice --number R-2027-01 --format json')
  assert.deepEqual([corrects, reason, partner.name], ['R-2026-0001', 'overcharged', 'Acme GmbH'])
  assert.deepEqual(short(await rowsOf(office, 'billing issued --from 2026-01 --to 2026-12')), OCTOBER)
  const both = await office.read('billing issued --from 2026-11 --to 2027-01')
  assert.match(both, /^TOTAL +-? .* 3372\.98 +630\.99 +4003\.97$/m)
  const mine = await office.read('billing issued --from 2026-11 --to 2027-01 --partner bolt')
  assert.deepEqual(mine.match(/R-\d+-\d+/g), ['R-2026-0002'])
  const report = await office.read('billing export --from 2026-11 --to 2027-01 --report invoices --totals')
  assert.deepEqual(report.split('\r\n').slice(4, 6), [
    'R-2027-01,2027-01-05,,acme,2026-10,R-2026-0001,-1000.01,-190.00,-1190.01',
    'TOTAL,,,,,,3372.98,630.99,4003.97',
  ])
  const audit = (await rowsOf(office, 'audit')).filter(({ action }) => action?.startsWith('billing.'))
  const issue = 'billing.issue'
  assert.deepEqual(each(audit, 'action'), [issue, issue, issue, 'billing.credit'])
  const { detail } = audit.at(-1) ?? {}
  assert.equal((detail as unknown as { reason: string }).reason, 'overcharged')
})

test('what a correction gives back in the present month is not credited as well', async (t) => {
  const office = await november(t)
  const settings = office.settings(SETTINGS)
  await office.read(`billing issue --month 2026-10 --settings ${settings}`)
  office.setClock(utc(2026, 10, 5))
  const [{ execution_id: id, usd_amount: spent }] = await office.json(
    'billing export --month 2026-10 --partner acme --report trades --format json',
  )
  const adjust = async (usd: string, btc: string) =>
    (await office.tranche(`trade adjust ${id} --usd ${usd} --btc ${btc} --reason wrong`)).err
  const less = (Number(spent) - 1_000).toFixed(2)
  assert.match(
    await adjust('1000', '0.1'),
    /It lowers the volume of 2026-11, and so the fee of 2026-11, at the tier of 2026-11: credit nothing of 2026-10 for it\.\n$/,
  )
  const credit = (usd: string, form = '') =>
    office.tranche(`${form}billing credit R-2026-0001 --usd ${usd} --reason wrong --settings ${settings}`)
  const warned = `Corrections of purchases of 2026-10 have lowered the volume of 2026-11 by ${less} USD, and so its fee: credit nothing for them, or it is given back twice.`
  assert.deepEqual(JSON.parse((await credit('1.00', '--json ')).out).warnings, [warned])
  assert.ok((await credit('2.00')).err.includes(`warning: ${warned}\n`))
  // An adjustment that raises the volume comes without the advice to credit nothing.
  office.setClock(utc(2026, 11, 5))
  assert.match(
    await adjust(spent, '0.1'),
    /It raises the volume of 2026-12, and so the fee of 2026-12, at the tier of 2026-12\.\n$/,
  )
})

test('the index says which months were forgotten, from the first one that has an invoice', async (t) => {
  const office = await november(t)
  const settings = office.settings(SETTINGS)
  office.enter('core', 'live', [{ user: 'u', at: utc(2026, 8, 5), usd: '200.00', btc: '0.1' }])
  office.enter('core', 'live', [{ user: 'u', at: utc(2026, 10, 5), usd: '600.00', btc: '0.1' }])
  const forgotten = async (argv: string) =>
    (await office.tranche(`billing issued ${argv}`)).err
      .match(/^Not issued: .*$/m)?.[0]
      .replace(/ --db \S+/, '')
  assert.equal(await forgotten('--year 2026'), undefined, 'who gives no numbers has forgotten none')
  await office.read(`billing issue --month 2026-10 --partner bolt --settings ${settings}`)
  const rest = 'Not issued: acme 2026-10 4320.99 USD, core 2026-10 2.00 USD'
  const next = '; > tranche billing issue --month 2026-10 --settings FILE'
  assert.equal(await forgotten('--year 2026'), `${rest}${next}`)
  assert.equal(await forgotten('--month 2026-09'), undefined, 'the first number was for October')
  assert.equal(await forgotten('--year 2026 --partner bolt'), undefined)
  office.setClock(utc(2026, 11, 3))
  assert.equal(await forgotten('--year 2026'), `${rest}, core 2026-11 3.00 USD${next}`)
  await office.read(`billing issue --month 2026-10 --settings ${settings}`)
  assert.match((await forgotten('--year 2026')) ?? '', /^Not issued: core 2026-11 3\.00 USD; > .* 2026-11/)
})

test('what is missing for an invoice is said before a number is given', async (t) => {
  const office = await november(t)
  const issue = async (settings: unknown, month = '2026-10') =>
    office.tranche(`billing issue --month ${month} --settings ${office.settings(settings)}`)
  const { partners } = SETTINGS
  const acme = { name: 'Acme GmbH', address: ['Köln'] }
  const { tax_id: _, ...untaxed } = ISSUER
  const { country: __, ...nowhere } = ISSUER
  const { numbers: ___, ...unnumbered } = ISSUER
  const cases: [settings: unknown, message: RegExp][] = [
    [{ issuer: unnumbered, partners }, /issuer\.numbers is missing for 2026-11/],
    [{ issuer: nowhere, partners }, /issuer\.country is missing: it says which law/],
    [{ issuer: untaxed, partners }, /issuer\.tax_id is missing: an invoice from the EU has it/],
    [
      { issuer: ISSUER, partners: { ...partners, acme } },
      /partners\.acme\.country is missing: .*; partners\.acme\.tax is missing: an invoice from the EU has a rate of VAT/,
    ],
    [
      { issuer: ISSUER, partners: { ...partners, bolt: { ...partners.bolt, tax_id: 'DE 1' } } },
      /partners\.bolt\.tax_id must be a VAT number of NL, which begins with NL/,
    ],
    [
      { issuer: ISSUER, partners: { ...partners, core: { ...partners.core, tax: 'reverse-charge' } } },
      /partners\.core\.tax is "reverse-charge", which is for a customer in another country of the EU; partners\.core\.tax_id is missing/,
    ],
    [{ issuer: { ...ISSUER, country: 'Germany' }, partners }, /issuer\.country must be two capital letters/],
    [
      { issuer: { ...ISSUER, numbers: { prefix: 'R2026' } }, partners },
      /issuer\.numbers\.prefix must be letters/,
    ],
    [{ issuer: { ...ISSUER, due_days: -1 }, partners }, /issuer\.due_days must be 0 or more/],
    [{ issuer: { ...ISSUER, due_days: 1.5 }, partners }, /issuer\.due_days must be a whole number/],
  ]
  for (const [settings, message] of cases) {
    const { code, out, err } = await issue(settings)
    assert.deepEqual([code, out], [1, ''], err)
    assert.match(err, message)
  }
  assert.deepEqual([(await issue(SETTINGS, '2026-11')).code, await rowsOf(office, 'billing issued')], [5, []])
  // Outside the EU only the country is required.
  const swiss = { ...untaxed, country: 'CH' }
  assert.equal((await issue({ issuer: swiss, partners: { ...partners, acme } })).code, 0)
})

test('a number stands for one amount, whatever becomes of the month', async (t) => {
  const office = await november(t)
  await office.read(`billing issue --month 2026-10 --settings ${office.settings(SETTINGS)}`)
  office.enter('acme', 'live', [{ user: 'u', at: utc(2026, 9, 6), usd: '1000.00' }])
  const page = await office.tranche('billing invoice --partner acme --month 2026-10')
  assert.deepEqual([page.code, page.out], [5, ''])
  assert.match(page.err, /R-2026-0001 was issued with 4320\.99 USD, and 2026-10 now comes to 4324\.49\./)
  const proof = await office.tranche('billing reconcile --month 2026-10')
  assert.deepEqual([proof.code, /invoice_differs +acme live 2026-10/.test(proof.out)], [3, true], proof.out)
})

test('options of an invoice that contradict each other are refused', async (t) => {
  const office = await november(t)
  for (const [options, message] of [
    ['', /Give --month, or --number/],
    ['--month 2026-10', /Give --partner, or --output-dir/],
    ['--number R-1 --month 2026-10', /--number cannot be combined with --partner, --month/],
    ['--number R-1 --settings x.json', /--number cannot be combined with/],
    ['--month 2026-10 --output-dir x --output y', /cannot be used with/],
    ['--month 2026-10 --partner acme --json --format md', /--json answers with JSON/],
  ] as const) {
    const { code, out, err } = await office.tranche(`billing invoice ${options}`.trim())
    assert.deepEqual([code, out], [2, ''], options)
    assert.match(err, message)
  }
})

test('a rehearsal of all invoices asks for no settings of a partner that owes nothing, as their issue', async (t) => {
  const office = await november(t)
  const { idle: _, ...partners } = SETTINGS.partners
  const settings = office.settings({ ...SETTINGS, partners })
  const folder = join(office.folder, 'drafts')
  const { code, err } = await office.tranche(
    `billing invoice --month 2026-10 --settings ${settings} --output-dir ${folder}`,
  )
  assert.equal(code, 0, err)
  assert.match(err, /^A draft: .*\nNothing is owed by idle\.\n3 invoices written to /)
  const issued = await office.tranche(`billing issue --month 2026-10 --settings ${settings}`)
  assert.match(issued.err, /^3 invoices issued/)
})

test('all invoices of a partner that did not exist are an error, and make no folder', async (t) => {
  const office = await november(t)
  const folder = join(office.folder, 'invoices')
  const write = async (asked: string) => {
    const { code, err } = await office.tranche(`billing invoice ${asked} --output-dir ${folder}`)
    return `${code} ${err}`
  }
  assert.equal(await write('--month 2026-10 --partner amce'), '4 error: Partner amce not found.\n')
  assert.match(
    await write('--month 2026-01 --partner acme'),
    /^4 error: Partner acme did not exist in 2026-01/,
  )
  assert.equal(existsSync(folder), false)
})
