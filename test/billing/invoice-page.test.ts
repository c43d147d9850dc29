// An invoice as its customer reads it: each line of one order, money in cents that add up, nothing for the operator,
// and nothing to pay while the month can change.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { confirmPath, PRICE, sendFirst, succeed } from '../http/steps.ts'
import { command, shell } from '../levers/steps.ts'
import { temporaryFolder } from '../support/database.ts'
import { fill, type Service, startService } from '../support/service.ts'
import { utc } from './books.ts'

const TERMS = 'Please pay within 14 days.'
const PARTY = { name: 'Acme Ltd', address: ['London'] }
const SETTINGS = {
  issuer: { name: 'Issuer GmbH', address: ['Berlin'], notes: [TERMS] },
  partners: { acme: PARTY },
}

const order = (id: string, usd: string, btc: string) => ({ ...fill(id, usd), btc_amount: btc })

/** Of two orders of one instruction, one accepted late; of one that failed and had filled; of one adjusted twice. */
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
  // What an operator says after a further purchase is of both orders in one sum.
  await adjust(two, '520.00', '0.0026', 'both by the statement of the venue')
  return service
}

/** The settings of every invoice here, in a folder that outlives no test. */
const settings = (t: TestContext): string => {
  const file = join(temporaryFolder(t), 'billing.json')
  writeFileSync(file, JSON.stringify(SETTINGS))
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

const cents = (amount: string): bigint => {
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
  const said = rows.map(([, what = '', , usd, btc]) => [what.replace(/ \(exec_\w+\)$/, ''), usd, btc])
  assert.deepEqual(said.toSorted(), [
    [
      'Order nil-1, confirmed 2026-01-05 as failed: from nothing to 8.12 USD for 0.00010000 BTC',
      '8.12',
      '0.00010000',
    ],
    [
      'Order over-1, a further purchase: from nothing to 515.55 USD for 0.00250000 BTC',
      '515.55',
      '0.00250000',
    ],
    [
      'Order two-1, confirmed 2026-01-05: from 10.00 USD for 0.00020000 BTC to 9.50 USD for 0.00019000 BTC',
      '-0.50',
      '-0.00001000',
    ],
    [
      'Order two-1, confirmed 2026-01-05: from 9.50 USD for 0.00019000 BTC to 9.00 USD for 0.00018000 BTC',
      '-0.50',
      '-0.00001000',
    ],
    [
      'Orders bolt-84 and over-1 together: from 525.27 USD for 0.00264539 BTC to 520.00 USD for 0.00260000 BTC',
      '-5.27',
      '-0.00004539',
    ],
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
  const volume = rowsUnder(md, 'Volume').map(([what = '', usd = '']) => [what, cents(usd)] as const)
  assert.deepEqual(
    volume.map(([what]) => what),
    ['Filled and partly filled trades: 2', 'Adjustments: 5', 'Fractions of a cent', 'Volume'],
  )
  const parts = volume.slice(0, -1).reduce((sum, [, usd]) => sum + usd, 0n)
  assert.equal(parts, volume.at(-1)?.[1])
  const lines = rowsUnder(md, 'Adjustments recorded in this month').map((cells) => cents(cells[3] ?? ''))
  assert.equal(
    lines.reduce((sum, usd) => sum + usd, 0n),
    volume[1]?.[1],
  )
  assert.match(md, /Fractions of a cent in trades are cut off on this page/)
  const html = await invoice(t, service, 'html')
  for (const text of [md, html]) assert.deepEqual(text.match(/\d\.\d{3,} USD/g), null)
  // A month of whole cents needs no word about them.
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
    const sent = [
      ...(
        await sendFirst(
          service,
          fills.map((_, i) => `p${i}`),
        )
      ).values(),
    ]
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
    for (const final of ['acme-2026-01', TERMS, 'Invoice date', '2026-02-01', 'pay it'])
      assert.ok(
        format === 'json' && final === '2026-02-01' ? true : !text.includes(final),
        `${format}: ${final}`,
      )
    if (format !== 'json') assert.match(text, /Provisional.*2026-01 can still change\./)
  }
  const json = JSON.parse(await invoice(t, service, 'json'))
  assert.deepEqual([json.invoice_number, json.invoice_date, json.final], [null, null, false])
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
