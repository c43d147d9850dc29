// A month as a journal: hledger takes it, balanced, and its accounts hold what the statements say.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { hasTool } from '../support/tools.ts'
import { type Office, openOffice, utc } from './books.ts'

const PARTY = { name: 'Acme', address: ['London'] }
const ACCOUNTS = {
  receivable: 'assets:receivable:{partner}',
  revenue: 'revenues:saving plans',
  tax: 'liabilities:vat',
}
const SETTINGS = {
  issuer: PARTY,
  partners: {
    acme: [
      { ...PARTY, tax: { rate: '19' } },
      { ...PARTY, from: '2026-10', tax: { rate: '7.75' } },
    ],
    bolt: { ...PARTY, tax: 'reverse-charge' },
  },
  accounts: ACCOUNTS,
}

/** Three partners, of which one owes nothing, over two months. */
async function autumn(t: Parameters<typeof openOffice>[0]): Promise<Office> {
  const office = await openOffice(t, utc(2026, 7), ['acme', 'bolt', 'idle'])
  await office.read('tier set starter --per-active-user-usd 0.40 --monthly-minimum-usd 25.00 --from 2026-10')
  await office.read('tier set free --rate-bps 0')
  await office.read('partner set-tier idle free')
  office.enter('acme', 'live', [
    { user: 'u', at: utc(2026, 8, 5), usd: '1234567.89', btc: '20' },
    { user: 'u', at: utc(2026, 9, 5), usd: '100.00' },
  ])
  office.enter('bolt', 'live', [{ user: 'v', at: utc(2026, 9, 6), usd: '9999.99', btc: '0.2' }])
  office.setClock(utc(2026, 10, 2))
  return office
}

const fileOf = (office: Office, settings: unknown): string => {
  const file = join(office.folder, 'billing.json')
  writeFileSync(file, JSON.stringify(settings))
  return file
}
const EXPORT = 'billing export --format hledger'

const JOURNAL = `decimal-mark .
commodity 1000.00 USD

2026-09-30 * acme | fees of 2026-09
    assets:receivable:acme  5141.98 USD
    revenues:saving plans   -4320.99 USD  ; Volume fee
    liabilities:vat          -820.99 USD

2026-10-31 * acme | fees of 2026-10
    assets:receivable:acme  26.94 USD
    revenues:saving plans   -0.50 USD  ; Volume fee
    revenues:saving plans   -0.40 USD  ; User fee
    revenues:saving plans  -24.10 USD  ; Up to the monthly minimum
    liabilities:vat         -1.94 USD

2026-10-31 * bolt | fees of 2026-10
    assets:receivable:bolt   50.40 USD
    revenues:saving plans   -50.00 USD  ; Volume fee
    revenues:saving plans    -0.40 USD  ; User fee
`

test('a journal has each month of each partner that owes something, balanced, to the accounts of the settings', async (t) => {
  const office = await autumn(t)
  const range = `--from 2026-09 --to 2026-10 --settings ${fileOf(office, SETTINGS)}`
  const journal = await office.read(`${EXPORT} ${range}`)
  assert.equal(
    journal.replaceAll(/ +(?=-?[\d.]+ USD)/g, '  '),
    JOURNAL.replaceAll(/ +(?=-?[\d.]+ USD)/g, '  '),
  )
  const file = join(office.folder, 'autumn.journal')
  const written = JSON.parse(await office.read(`--json ${EXPORT} ${range} --output ${file}`))
  assert.deepEqual(written, { file, rows: 3 })
  if (!hasTool(t, 'hledger')) return
  const hledger = (...argv: string[]) => execFileSync('hledger', ['-f', file, ...argv], { encoding: 'utf8' })
  hledger('check', 'ordereddates')
  const balances = hledger('balance', '--flat', '--no-total', '--layout', 'bare', '-O', 'csv')
  const rows = await office.read('--json billing show --from 2026-09 --to 2026-10')
  const owed = JSON.parse(rows).reduce(
    (sum: number, { total_fee_usd }: { total_fee_usd: string }) =>
      sum + Math.round(Number(total_fee_usd) * 100),
    0,
  )
  const balance = Object.fromEntries(
    balances
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => {
        const [account = '', , amount = ''] = line.replaceAll('"', '').split(',')
        return [account, amount]
      }),
  )
  assert.deepEqual(balance, {
    'assets:receivable:acme': '5168.92',
    'assets:receivable:bolt': '50.40',
    'liabilities:vat': '-822.93',
    'revenues:saving plans': '-4396.39',
  })
  assert.equal(owed, 439_639)
})

test('what was issued is booked with its number and the tax of then, and a credit note gives back', async (t) => {
  const office = await autumn(t)
  const issuer = { ...PARTY, country: 'CH', numbers: { prefix: 'R-' } }
  const settings = ` --settings ${fileOf(office, { ...SETTINGS, issuer })}`
  await office.read(`billing issue --month 2026-10 --partner acme${settings}`)
  await office.read(`billing credit R-0001 --usd 10.00 --reason goodwill${settings}`)
  office.setClock(utc(2026, 11, 2))
  fileOf(office, { ...SETTINGS, issuer, partners: { ...SETTINGS.partners, acme: PARTY } })
  const journal = await office.read(`${EXPORT} --from 2026-10 --to 2026-11${settings} --partner acme`)
  const amounts = (text: string) => text.replaceAll(/ +(?=-?[\d.]+ USD)/g, '  ')
  assert.equal(
    amounts(journal.split('\n\n').slice(1, 3).join('\n\n')),
    amounts(`2026-10-31 * (R-0001) acme | fees of 2026-10
    assets:receivable:acme   26.94 USD
    revenues:saving plans    -0.50 USD  ; Volume fee
    revenues:saving plans    -0.40 USD  ; User fee
    revenues:saving plans   -24.10 USD  ; Up to the monthly minimum
    liabilities:vat          -1.94 USD

2026-11-02 * (R-0002) acme | credit note for R-0001
    assets:receivable:acme  -10.78 USD
    revenues:saving plans    10.00 USD
    liabilities:vat           0.78 USD`),
  )
  if (!hasTool(t, 'hledger')) return
  const file = join(office.folder, 'issued.journal')
  writeFileSync(file, journal)
  execFileSync('hledger', ['-f', file, 'check', 'ordereddates'])
})

test('a journal is of months that are final, of live business, with sound accounts', async (t) => {
  const office = await autumn(t)
  const month = `${EXPORT} --month 2026-10`
  const refused = async (argv: string, settings: unknown, code: number, message: RegExp) => {
    const {
      code: exit,
      out,
      err,
    } = await office.tranche(settings === null ? argv : `${argv} --settings ${fileOf(office, settings)}`)
    assert.deepEqual([exit, out], [code, ''], err)
    assert.match(err, message)
  }
  await refused(month, null, 2, /--format hledger needs --settings/)
  await refused(`${EXPORT} --month 2026-11`, SETTINGS, 2, /2026-11 can still change/)
  await refused(`${month} --env test`, SETTINGS, 2, /Test environments owe nothing/)
  await refused(`${month} --report summary`, SETTINGS, 2, /takes no --report/)
  for (const option of ['--bom', '--raw', '--quote-text', '--totals'])
    await refused(`${month} ${option}`, SETTINGS, 2, /A journal has no cells/)
  await refused('billing export --month 2026-10', SETTINGS, 2, /it goes with --format hledger/)
  const { accounts: _, ...without } = SETTINGS
  await refused(month, without, 1, /accounts are missing/)
  const { tax: __, ...two } = ACCOUNTS
  await refused(month, { ...SETTINGS, accounts: two }, 1, /accounts\.tax is missing, and there is tax/)
  for (const receivable of ['a  b', 'a;b', '(a)', 'a{slug}', ' a', 'a ', '! a'])
    await refused(
      month,
      { ...SETTINGS, accounts: { ...ACCOUNTS, receivable } },
      1,
      /accounts\.receivable must be/,
    )
  for (const tax of ['reverse', { rate: '19.001' }, { rate: 19 }, { exempt: '' }, {}])
    await refused(
      month,
      { ...SETTINGS, partners: { acme: { ...PARTY, tax } } },
      1,
      /partners\.acme\.tax(\.rate|\.exempt)? must (be|not be)/,
    )
})
