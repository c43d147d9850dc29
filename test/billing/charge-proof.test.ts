// A month is charged by the tier and at the fee that the stored tiers lead to, and reconcile proves it in a second way.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcile } from '../../src/billing/reconcile.ts'
import { bill, chargeFaults } from '../../src/billing/statement.ts'
import {
  type Activity,
  chooseTier,
  type Statement,
  statementOf,
  type Tier,
  tiersInForce,
} from '../../src/core/fees.ts'
import { CENT, formatUsd, type Usd, usd } from '../../src/core/money.ts'
import { periodOf } from '../../src/core/month.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { plus } from '../../src/core/time.ts'
import { seededRandom } from '../../src/engine/backtest.ts'
import type { MinimumEnd, OverrideStart } from '../../src/store/store.ts'
import { confirmPath, sendFirst, succeed } from '../http/steps.ts'
import { command, shell } from '../levers/steps.ts'
import { tier } from '../support/samples.ts'
import { fill, type Service, startService } from '../support/service.ts'

const DAY = 86_400_000
const LIVE = { slug: null, environment: 'live' } as const
const VIP = ['tier', 'set', 'vip', '--rate-bps', '7', '--monthly-minimum-usd', '5000.00']

/** A service with a fill of 10.00 in January that is corrected to 9.00 in February. */
async function corrected(t: Parameters<typeof startService>[0]): Promise<Service> {
  const service = await startService(t, { environment: 'live' })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await succeed(service, 'POST', confirmPath(id), fill('o1', '10.00'))
  service.advance(31 * DAY)
  await shell(service, [
    'trade',
    'adjust',
    id,
    '--usd',
    '9',
    '--btc',
    '0.00015',
    '--reason',
    'a typing error',
  ])
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

test('the minimum begins with the month in which the partner came', async () => {
  const january = { ...periodOf('2026-01'), final: true }
  for (const [later, minimum] of [
    [-1, '40.00'],
    [0, '0.00'],
  ] as const) {
    const terms = { override: null, lastMinimum: null, partnerSince: plus(january.end, later) }
    const tiers = [tier({ monthlyMinimum: usd('40.00') })]
    const store = {
      readActivity: async () => ({ activity: QUIET, users: [] }),
      readTerms: async () => ({ ...terms, tiers }),
    }
    const { statement } = await bill(store as unknown as Parameters<typeof bill>[0], TENANT, january)
    assert.equal(formatUsd(statement.fees.total), minimum)
  }
})

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
