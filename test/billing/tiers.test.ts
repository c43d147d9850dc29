// Tiers and overrides from the shell, and the proof that each month is charged accordingly.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcile } from '../../src/billing/reconcile.ts'
import { chargeFaults } from '../../src/billing/statement.ts'
import {
  type Activity,
  chooseTier,
  type Statement,
  statementOf,
  type Tier,
  tiersInForce,
} from '../../src/core/fees.ts'
import { CENT, type Usd, usd } from '../../src/core/money.ts'
import { periodOf } from '../../src/core/month.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { seededRandom } from '../../src/engine/backtest.ts'
import type { MinimumEnd, OverrideStart } from '../../src/store/store.ts'
import { confirmPath, sendFirst, succeed } from '../http/steps.ts'
import { command, shell } from '../levers/steps.ts'
import { tier } from '../support/samples.ts'
import { fill, type Service, startService } from '../support/service.ts'
import { type Office, openOffice, utc } from './books.ts'

/** Volume of 2,000,000.00 in each of the first months of 2026, and a little of it in the test environment. */
async function withVolume(t: Parameters<typeof openOffice>[0]): Promise<Office> {
  const office = await openOffice(t, utc(2026, 0))
  for (const month of [0, 1, 2, 3])
    for (const environment of ['live', 'test'] as const)
      office.enter('acme', environment, [
        { user: 'a', at: utc(2026, month, 3), usd: '1500000.00', btc: '20' },
        { user: 'b', at: utc(2026, month, 4), usd: '500000.00', btc: '10' },
      ])
  return office
}

async function statement(office: Office, month: string) {
  return (await office.json(`--json billing show --month ${month} --env live`))[0]
}
const charged = async (office: Office, month: string) => {
  const row = await statement(office, month)
  return `${row.pricing_tier} ${row.pricing_tier_source} ${row.rate_bps} ${row.total_fee_usd}`
}

test('the minimum of a disabled partner ends with the month that is named, and is due again once it is enabled', async (t) => {
  const office = await openOffice(t, utc(2026, 0), ['acme', 'bolt'])
  await office.read('tier set starter --monthly-minimum-usd 100.00')
  const row = async (month: string) => {
    const { minimum_fee_usd: least, total_fee_usd: total, final } = await statement(office, month)
    return `${least} ${total}${final ? '' : ' so far'}`
  }
  const plain = await office.tranche('partner disable acme')
  assert.match(plain.err, /acme still owes the monthly minimum of its tier; --last-minimum YYYY-MM ends that/)
  office.setClock(utc(2026, 3, 10))
  // A fill that an operator accepts later is charged, with or without a minimum.
  office.enter('acme', 'live', [{ user: 'a', at: utc(2026, 3, 9), usd: '1000.00', btc: '0.01' }])
  const past = await office.tranche('partner disable acme --last-minimum 2026-02')
  assert.deepEqual([past.code, /2026-03 is over, and its minimum stays/.test(past.err)], [5, true])
  const words = await office.tranche('partner disable acme --last-minimum 2026-03')
  assert.match(words.out, /^last_minimum +2026-03$/m)
  assert.match(words.err, /acme owes the monthly minimum of its tier until 2026-03, that month included\./)
  const months = async (...names: string[]) => {
    const rows = []
    for (const name of names) rows.push(await row(name))
    return rows
  }
  const ended = ['100.00 100.00', '0.00 5.00 so far', '0.00 0.00 so far']
  assert.deepEqual(await months('2026-03', '2026-04', '2026-05'), ended)
  assert.equal((await office.tranche('partner disable acme --last-minimum none')).code, 0)
  assert.deepEqual(await months('2026-04'), ['100.00 100.00 so far'])
  await office.read('partner disable acme --last-minimum 2026-03')
  const april = 'billing export --month 2026-04 --report summary --partner acme'
  office.setClock(utc(2026, 4, 2))
  const bytes = await office.read(april)
  assert.match(bytes, /,5\.00,0\.00,0\.00,5\.00\r\n$/)
  const invoice = 'billing invoice --partner acme --month 2026-04 --format md'
  const page = await office.read(invoice)
  assert.doesNotMatch(page, /at least|monthly minimum/)
  office.setClock(utc(2026, 6, 20))
  const [listed] = await office.json('--json partner list')
  assert.deepEqual([listed.status, listed.last_minimum], ['disabled', '2026-03'])
  const enabled = await office.json('--json partner enable acme')
  assert.deepEqual([enabled.status, enabled.last_minimum], ['active', null])
  office.setClock(utc(2026, 7, 2))
  assert.deepEqual(await months('2026-03', '2026-04', '2026-06', '2026-07', '2026-08'), [
    '100.00 100.00',
    '0.00 5.00',
    '0.00 0.00',
    '100.00 100.00',
    '100.00 100.00 so far',
  ])
  assert.equal(await office.read(april), bytes)
  assert.equal(await office.read(invoice), page)
  assert.match(await office.read('billing reconcile --from 2026-01 --to 2026-07'), /7 months agree/)
  const said = (await office.json('--json audit --partner acme'))
    .filter(({ action }: { action: string }) => /able$/.test(action))
    .map(({ action, detail }: { action: string; detail: object }) => `${action} ${JSON.stringify(detail)}`)
  assert.deepEqual(said, [
    'partner.disable {}',
    'partner.disable {"last_minimum":"2026-03"}',
    'partner.disable {"last_minimum":"none"}',
    'partner.disable {"last_minimum":"2026-03"}',
    'partner.enable {}',
  ])
})

test('an override only names a tier that is in force in its month', async (t) => {
  const office = await withVolume(t)
  await office.read('tier set vip --rate-bps 5 --from 2026-03')
  const tries: [argv: string, code: number][] = [
    ['partner set-tier acme nothing', 4],
    ['partner set-tier acme vip', 4],
    ['partner set-tier acme vip --from 2026-02', 4],
    ['partner set-tier acme vip --from 2025-12', 5],
    ['partner set-tier nobody vip --from 2026-03', 4],
    ['partner set-tier acme vip --from 2026-03', 0],
    ['partner set-tier acme vip --from 2026-04', 0],
  ]
  for (const [argv, code] of tries) assert.equal((await office.tranche(argv)).code, code, argv)
  office.setClock(utc(2026, 5))
  assert.equal(await charged(office, '2026-02'), 'growth volume 35 7000.00')
  assert.equal(await charged(office, '2026-03'), 'vip override 5 1000.00')
})

test('set-tier says what it has set, and a partner shows what is still to come', async (t) => {
  const office = await openOffice(t, utc(2026, 0))
  const later = await office.tranche('partner set-tier acme scale --from 2026-03')
  assert.match(later.out, /^pricing_tier_override +-$/m)
  assert.match(later.out, /^pending_overrides +scale from 2026-03$/m)
  assert.equal(later.err, 'acme is charged by scale from 2026-03 on; before 2026-03 by its volume.\n')
  const ended = await office.tranche('partner set-tier acme none --from 2026-04')
  assert.equal(ended.err, 'acme is charged by its volume from 2026-04 on; before 2026-04 by scale.\n')
  const atOnce = await office.tranche('partner set-tier acme growth')
  assert.equal(atOnce.err, 'acme is charged by growth from 2026-01 until 2026-03, and then by scale.\n')
  const pending = /^pending_overrides +scale from 2026-03, none from 2026-04$/m
  assert.match(await office.read('partner show acme'), pending)
  const same = await office.tranche('partner set-tier acme none --from 2026-06')
  assert.equal(same.err, 'acme is charged by its volume from 2026-06 on.\n')
  office.setClock(utc(2026, 2))
  const shown = await office.json('partner show acme --json')
  assert.equal(shown.pricing_tier_override, 'scale')
  assert.deepEqual(shown.pending_overrides, [
    { from_month: '2026-04', tier: null },
    { from_month: '2026-06', tier: null },
  ])
})

test('tier set keeps what is left out, the rate too, and says from when until when it holds', async (t) => {
  const office = await openOffice(t, utc(2026, 0))
  const words = async (line: string) => (await office.tranche(line)).err
  assert.equal(
    await words('tier set growth --monthly-minimum-usd 100 --from 2026-03'),
    'growth is charged like this from 2026-03 on; until then its version of 1970-01 holds.\n',
  )
  const set = await office.json('tier set growth --per-active-user-usd 0.10 --from 2026-02 --json')
  assert.deepEqual(set, {
    name: 'growth',
    from_month: '2026-02',
    min_volume_usd: '1000000.00',
    rate_bps: 35,
    per_active_user_usd: '0.10',
    monthly_minimum_usd: '0.00',
    overrides_only: false,
    until_month: '2026-03',
  })
  assert.equal(
    await words('tier set growth --rate-bps 30'),
    'growth is charged like this from 2026-01 until its version of 2026-02 begins.\n',
  )
  assert.equal(
    await words('tier set gold --rate-bps 5 --from 2026-06'),
    'gold is charged like this from 2026-06 on; until then there is no such tier.\n',
  )
  const { code, err } = await office.tranche('tier set gold --monthly-minimum-usd 1')
  assert.deepEqual([code, err], [2, 'error: There is no tier gold in 2026-01 yet: give its --rate-bps.\n'])
})

// A month is charged by the tier and at the fee of the stored tiers, and reconcile proves it in a second way.

const DAY = 86_400_000
const LIVE = { slug: null, environment: 'live' } as const
const VIP = ['tier', 'set', 'vip', '--rate-bps', '7', '--monthly-minimum-usd', '5000.00']

/** A service with a fill of 10.00 in January that is corrected to 9.00 in February. */
async function corrected(t: Parameters<typeof startService>[0]): Promise<Service> {
  const service = await startService(t, { environment: 'live' })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await succeed(service, 'POST', confirmPath(id), fill('o1', '10.00'))
  service.advance(31 * DAY)
  const right = ['--usd', '9', '--btc', '0.00015', '--reason', 'a typing error']
  await shell(service, ['trade', 'adjust', id, ...right])
  return service
}

test('one tier keeps a volume, in every month that is to come', async (t) => {
  const service = await startService(t, { environment: 'live' })
  for (const name of ['growth', 'scale'])
    await shell(service, ['tier', 'set', name, '--min-volume-usd', 'none'])
  await shell(service, ['tier', 'set', 'growth', '--min-volume-usd', '5', '--from', '2026-03'])
  const none = ['tier', 'set', 'starter', '--min-volume-usd', 'none']
  const refused = await command(service, none)
  assert.deepEqual([refused.code, /In 2026-01 no tier would have a volume/.test(refused.err)], [2, true])
  await shell(service, [...none, '--from', '2026-03'])
  const last = ['tier', 'set', 'growth', '--min-volume-usd', 'none', '--from', '2026-04']
  assert.match((await command(service, last)).err, /In 2026-04 no tier would have a volume/)
})

test('reconcile finds a month that is charged by the wrong tier, whatever chose it', async (t) => {
  const service = await corrected(t)
  await shell(service, VIP)
  const { store } = service
  const period = await store.fixPeriod(periodOf('2026-02'))
  const charged = async (wrong: (tiers: Tier[]) => Tier[], override: string | null) => {
    const readTerms: typeof store.readTerms = async (tenant, month) => {
      const terms = await store.readTerms(tenant, month)
      return { ...terms, tiers: wrong(terms.tiers), override }
    }
    const { months } = await reconcile({ ...store, readTerms }, [period], LIVE)
    return months.flatMap(({ findings }) => findings.map(({ kind, message }) => `${kind}: ${message}`))
  }
  assert.deepEqual(await charged((tiers) => tiers, null), [])
  assert.deepEqual(await charged((tiers) => tiers, 'vip'), [
    'tier_differs: is charged by vip (override), a volume of -1.00 USD leads to starter (volume)',
    'total_fee_differs: costs 5000.00, by starter it comes to 0.00',
  ])
  const withVolume = (tiers: Tier[]) =>
    tiers
      .filter(({ name }) => name !== 'starter')
      .map((one) => (one.name === 'vip' ? { ...one, minVolume: usd('0.00') } : one))
  assert.deepEqual(await charged(withVolume, null), [
    'tier_differs: is charged by vip (volume), a volume of -1.00 USD leads to starter (volume)',
    'total_fee_differs: costs 5000.00, by starter it comes to 0.00',
  ])
})

const TENANT: Tenant = { tenantId: 1, partnerSlug: 'acme', environment: 'live' }
const QUIET: Activity = {
  activeUsers: 2,
  activePlans: 2,
  executionsCreated: 2,
  executionsFilled: 2,
  executionsPartial: 0,
  executionsFailed: 0,
  executionsCancelled: 0,
  volume: usd('0.00'),
  btc: 0n as Activity['btc'],
  partnerFees: usd('0.00'),
}

test('the two ways agree on every tier and fee, over many sets of tiers', () => {
  const random = seededRandom(28)
  const below = (n: number) => Math.floor(random() * n)
  const pick = <T>(from: readonly T[]): T => from[below(from.length)] as T
  const months = ['1970-01', '2026-01', '2026-02', '2026-03']
  for (let i = 0; i < 5_000; i++) {
    const tiers: Tier[] = [tier({ place: 4 })]
    const names = ['a', 'b', 'vip'].sort(() => random() - 0.5)
    const places = new Map(['', ...names, 'starter'].map((name, place) => [name, place]))
    for (let n = below(6); n > 0; n--) {
      const name = pick(['a', 'b', 'vip', 'starter'])
      const one = tier({
        name,
        place: places.get(name) ?? 0,
        fromMonth: pick(months),
        minVolume: pick([null, usd('0.00'), usd('5.00'), usd('7.00')]),
        rateBps: below(10_001),
        perActiveUser: pick([usd('0.00'), usd('0.07')]),
        monthlyMinimum: pick([usd('0.00'), usd('3.00')]),
      })
      if (one.name === 'starter' && one.minVolume === null) continue
      if (!tiers.some(({ name, fromMonth }) => name === one.name && fromMonth === one.fromMonth))
        tiers.push(one)
    }
    const month = pick(['1969-12', ...months])
    const inForce = tiersInForce(tiers, month)
    const overrides: OverrideStart[] = months.map((fromMonth) => ({
      fromMonth,
      tierName: pick([null, ...inForce.map(({ name }) => name)]),
    }))
    const minimumEnds: MinimumEnd[] = months
      .filter(() => random() < 0.4)
      .map((fromMonth) => ({ fromMonth, lastMonth: pick([null, '1969-11', ...months]) }))
    const override = overrides.findLast(({ fromMonth }) => fromMonth <= month)?.tierName ?? null
    const volume = (BigInt(below(1_200) - 200) * CENT + BigInt(below(3))) as Usd
    const statement: Statement = statementOf({
      tenant: TENANT,
      period: periodOf(month),
      final: false,
      activity: { ...QUIET, volume },
      partnerExisted: true,
      lastMinimum: minimumEnds.findLast(({ fromMonth }) => fromMonth <= month)?.lastMonth ?? null,
      ...chooseTier(inForce, override, volume),
    })
    assert.deepEqual(chargeFaults(statement, { tiers, overrides, minimumEnds, isDue: true }), [], `set ${i}`)
  }
})
