// Partners, keys, tiers and the audit log.

import assert from 'node:assert/strict'
import { setTier, type TierTerms } from '../../../src/core/fees.ts'
import { usd } from '../../../src/core/money.ts'
import { endMinimum, type Partner, setPartnerStatus } from '../../../src/core/partner.ts'
import { HOUR_MS, plus } from '../../../src/core/time.ts'
import { countDuePlans } from '../../../src/engine/pass.ts'
import type { AuditEntry, ListedAuditEntry, Store } from '../../../src/store/store.ts'
import {
  AUDIT,
  allPlans,
  type Contract,
  each,
  enrol,
  keyFor,
  link,
  noted,
  PAGE,
  poll,
  problem,
  sendPlan,
  tick,
  type World,
} from '../world.ts'

const auditOf = (store: Store): Promise<ListedAuditEntry[]> => store.listAudit(PAGE)
const note = (action: string) => ({ ...AUDIT, action, subject: 'acme', detail: { action } })

/** A change of each kind that an operator makes. */
const changesOf = (
  { store, acme, now }: World,
  keyId: string,
): Record<string, (audit: AuditEntry) => Promise<unknown>> => ({
  'partner added': (audit) => store.addPartner({ partnerSlug: 'new', name: 'new' }, audit),
  'partner changed': (audit) => store.changePartner('acme', (seen) => ({ ...seen, held: true }), audit),
  'key added': (audit) => store.addKey(keyFor(acme), audit),
  'key changed': (audit) =>
    store.changeKey(keyId, (key) => ({ key: { ...key, revokedAt: now() }, successor: null }), audit),
  'tier set': (audit) =>
    store.putTier(
      () => TIER,
      () => audit,
    ),
  'tier promised': (audit) =>
    store.putTierOverride({ partnerSlug: 'acme', fromMonth: null, tierName: 'scale' }, audit),
  'user erased': (audit) => store.eraseUser(acme, 'u1', audit),
})

export const partnerContract: Contract = (test) => {
  test('a partner exists once, with a test and a live tenant', async ({ store, acme, acmeLive, bolt }) => {
    const again = store.addPartner({ partnerSlug: 'acme', name: 'again' }, AUDIT)
    await assert.rejects(again, problem('partner_exists'))
    assert.equal((await store.findPartner('acme'))?.name, 'acme')
    assert.equal(new Set([acme, acmeLive, bolt].map(({ tenantId }) => tenantId)).size, 3)
    assert.deepEqual([acme.environment, acmeLive.environment], ['test', 'live'])
    assert.equal(await store.findPartner('nobody'), null)
    assert.equal(await store.findTenant('nobody', 'test'), null)
    assert.deepEqual(each(await store.listPartners(), 'partnerSlug'), ['acme', 'bolt'])
  })

  test('every change of an operator is in the audit log, and a refused one does not', async (world) => {
    const { store, acme, now } = world
    const { keyId } = await store.addKey(keyFor(acme), AUDIT)
    await link(store, acme)
    const before = (await auditOf(store)).length
    const changes = Object.entries(changesOf(world, keyId))
    for (const [action, change] of changes) await change(note(action))
    const rows = (await auditOf(store)).slice(before)
    assert.deepEqual(
      each(rows, 'action', 'at', 'osUser', 'detail'),
      changes.map(([action]) => [action, now(), 'test', { action }]),
    )

    const set = (terms: TierTerms) => store.putTier((versions, at) => setTier(versions, terms, at), noted)
    const override = (partnerSlug: string, fromMonth: string | null, tierName: string | null) =>
      store.putTierOverride({ partnerSlug, fromMonth, tierName }, AUDIT)
    const refused: [code: string, change: () => Promise<unknown>][] = [
      ['partner_exists', () => store.addPartner({ partnerSlug: 'bolt', name: 'b' }, AUDIT)],
      ['partner_not_found', () => store.changePartner('nobody', (seen) => seen, AUDIT)],
      ['key_not_found', () => store.changeKey('key_none', (seen) => ({ key: seen, successor: null }), AUDIT)],
      ['month_closed', () => set({ ...TIER, fromMonth: '2025-12' })],
      ['partner_not_found', () => override('no', null, null)],
      ['tier_not_found', () => override('acme', null, 'no')],
      ['month_closed', () => override('acme', '2025-12', null)],
    ]
    for (const [code, change] of refused) await assert.rejects(change, problem(code), code)
    assert.equal((await auditOf(store)).length, before + rows.length)
  })

  test('a key is found by its hash, with its partner', async ({ store, acme, acmeLive, now, advance }) => {
    const made = keyFor(acmeLive, { lifetimeMs: HOUR_MS })
    const key = await store.addKey(made, AUDIT)
    assert.deepEqual(
      { createdAt: key.createdAt, expiresAt: key.expiresAt, tenant: key.tenant },
      { createdAt: now(), expiresAt: plus(now(), HOUR_MS), tenant: acmeLive },
    )
    await store.changePartner('acme', (seen) => ({ ...seen, status: 'disabled' }), AUDIT)
    const found = await store.findKey(made.sha256)
    const { partnerName, partnerStatus } = found ?? {}
    assert.deepEqual([found?.key.keyId, partnerName, partnerStatus], [key.keyId, 'acme', 'disabled'])
    assert.equal(await store.findKey('0'.repeat(63)), null)
    advance(HOUR_MS)
    await store.markKeyUsed(acme, key.keyId)
    assert.equal((await store.findKey(made.sha256))?.key.lastUsedAt, now())
    const other = await store.addKey(keyFor(acme), AUDIT)
    assert.deepEqual(each(await store.listKeys('acme'), 'keyId'), [key.keyId, other.keyId])
    assert.deepEqual(await store.listKeys('bolt'), [])
  })

  test('a rotation ends one key and adds another, or does neither', async ({ store, acme, now }) => {
    const old = await store.addKey(keyFor(acme), AUDIT)
    const audited = (await auditOf(store)).length
    const rotate = (sha256: string) =>
      store.changeKey(
        old.keyId,
        (key) => ({ key: { ...key, revokedAt: now() }, successor: keyFor(acme, { sha256 }) }),
        note('rotate'),
      )
    const taken = keyFor(acme)
    await store.addKey(taken, AUDIT)
    await assert.rejects(rotate(taken.sha256))
    assert.deepEqual(each(await store.listKeys('acme'), 'revokedAt'), [null, null])
    assert.equal((await auditOf(store)).length, audited + 1)

    const { key, successor } = await rotate('f'.repeat(64))
    assert.deepEqual([key.revokedAt, successor?.revokedAt], [now(), null])
    assert.equal((await store.listKeys('acme')).length, 3)
  })

  test('tiers are versioned by month, and so is what a partner pays instead', async ({ store }) => {
    assert.deepEqual(each(await store.listTiers(), 'name', 'rateBps'), SHIPPED)
    await store.putTier((versions) => {
      assert.deepEqual(versions.map(({ name }) => name).sort(), SHIPPED.map(([name]) => name).sort())
      return TIER
    }, noted)
    const set = (await store.listTiers()).find(({ fromMonth }) => fromMonth === '2026-02')
    assert.deepEqual(set, TIER)
    const override = (fromMonth: string | null, tierName: string | null) =>
      store.putTierOverride({ partnerSlug: 'acme', fromMonth, tierName }, AUDIT)
    assert.equal(await override('2026-03', 'growth'), '2026-03')
    assert.equal(await override(null, 'scale'), '2026-01')
    await override('2026-05', null)
    await override('2027-02', 'scale')
    const months = ['2025-12', '2026-01', '2026-02', '2026-03', '2026-04', '2026-05', '2027-01', '2027-02']
    const inForce = await Promise.all(months.map((month) => store.findTierOverride('acme', month)))
    assert.deepEqual(inForce, [null, 'scale', 'scale', 'growth', 'growth', null, null, 'scale'])
    assert.equal(await store.findTierOverride('bolt', '2026-03'), null)
    assert.deepEqual(await store.listTierOverridesAfter('acme', '2026-03'), [
      { fromMonth: '2026-05', tierName: null },
      { fromMonth: '2027-02', tierName: 'scale' },
    ])
    assert.deepEqual(await store.listTierOverridesAfter('acme', '2027-02'), [])
    assert.deepEqual(await store.listTierOverridesAfter('bolt', '2025-01'), [])
  })

  test('the end of a minimum holds from the month in which it is said, until it is said anew', async (world) => {
    const { store, acmeLive, bolt, advance } = world
    const month = () => advance(31 * 24 * HOUR_MS)
    const say = (lastMinimum: string | null) =>
      store.changePartner('acme', (seen, now) => endMinimum(seen, lastMinimum, now), AUDIT)
    const billed = async (...months: string[]) =>
      Promise.all(months.map(async (one) => (await store.readTerms(acmeLive, one)).lastMinimum))
    const status = (to: 'active' | 'disabled') =>
      store.changePartner('acme', (seen, now) => setPartnerStatus(seen, to, now), AUDIT)
    await say(null)
    await status('disabled')
    assert.deepEqual(await store.listMinimumEnds('acme'), [], 'no end is what holds anyway')
    await say('2026-07')
    await say('2026-02')
    month()
    assert.deepEqual(await billed('2025-12', '2026-01', '2026-02', '2026-09'), [
      null,
      '2026-02',
      '2026-02',
      '2026-02',
    ])
    month()
    await assert.rejects(say('2026-01'), problem('month_closed'))
    const enabled = await status('active')
    assert.equal(enabled.status, 'active')
    assert.ok(!('lastMinimum' in enabled), 'it is no part of a partner')
    assert.deepEqual(await billed('2026-02', '2026-03', '2026-09'), ['2026-02', null, null])
    assert.deepEqual(await store.listMinimumEnds('acme'), [
      { fromMonth: '2026-01', lastMonth: '2026-02' },
      { fromMonth: '2026-03', lastMonth: null },
    ])
    assert.equal(await store.findLastMinimum('acme', '2026-02'), '2026-02')
    assert.equal(await store.findLastMinimum('acme', '2026-03'), null)
    assert.equal((await store.readTerms(bolt, '2026-02')).lastMinimum, null)
  })

  test('a disabled partner leaves the due set whole and comes back', async (world) => {
    const { store, acme, acmeLive, bolt } = world
    for (const tenant of [acme, acmeLive, bolt]) await enrol(store, tenant)
    const status = (to: 'active' | 'disabled') =>
      store.changePartner('acme', (seen) => ({ ...seen, status: to, minTranche: usd('25.00') }), AUDIT)
    await status('disabled')
    assert.equal(await countDuePlans(store), 1)
    assert.equal((await tick(world, '60000')).plansEvaluated, 1)
    await status('active')
    world.advance(60_000)
    assert.equal((await tick(world, '60000')).executionsCreated, 2)
    const reserved = (await allPlans(store)).map(({ window }) => window?.reserved)
    assert.deepEqual(reserved, [usd('30'), usd('30'), usd('10')])
  })

  test('a hold and a new minimum reach the windows that are open, at once', async (world) => {
    const { store, acme, bolt } = world
    for (const tenant of [acme, bolt]) await enrol(store, tenant)
    const change = (to: Partial<Partner>) =>
      store.changePartner('acme', (seen) => ({ ...seen, ...to }), AUDIT)
    await change({ held: true })
    assert.equal((await tick(world, '60000')).executionsCreated, 1, 'that of the other partner')
    assert.equal((await store.readPlan(acme, 'p1'))?.held, true)
    assert.equal((await store.readPlan(bolt, 'p1'))?.held, false)
    for (const more of [
      { partnerPlanId: 'new' },
      { status: 'paused' },
      { status: 'active', amount: usd('60') },
    ] as const)
      await sendPlan(store, acme, more)
    world.advance(60_000)
    const { plansEvaluated } = await tick(world, '1')
    assert.equal(plansEvaluated, 1, 'nor does a plan that is new, changed or woken fire')
    await sendPlan(store, acme, { partnerPlanId: 'new', status: 'cancelled' })
    await change({ held: false, minTranche: usd('25') })
    const [held, free] = await store.findPlans('p1')
    assert.deepEqual([held?.schedule?.floor, free?.schedule?.floor], [usd('25'), usd('5')])
    world.advance(60_000)
    await tick(world, '60000')
    assert.equal((await allPlans(store))[0]?.window?.reserved, usd('30'))
    await change({ minTranche: usd('100') })
    assert.equal((await store.findPlans('p1'))[0]?.schedule?.floor, usd('60'), 'at most the budget')
  })

  test('a change whose audit entry cannot be kept is not made', async (world) => {
    const { store, acme } = world
    const { keyId } = await store.addKey(keyFor(acme), AUDIT)
    await link(store, acme)
    const unkept = { ...AUDIT, detail: { number: 1n } }
    const seen = async () => [
      await store.listPartners(),
      await store.listKeys('acme'),
      await store.listTiers(),
      await store.findTierOverride('acme', '2026-01'),
      await store.findUser(acme, 'u1'),
      await auditOf(store),
    ]
    const before = await seen()
    for (const [what, change] of Object.entries(changesOf(world, keyId)))
      await assert.rejects(change(unkept), what)
    assert.deepEqual(await seen(), before)
  })

  test('tiers are listed, and counted, in the order in which they were first set', async ({ store }) => {
    for (const term of ['zz 2026-02', 'aa 2026-02', 'zz 2026-03']) {
      const [name = '', fromMonth = ''] = term.split(' ')
      await store.putTier((versions, at) => setTier(versions, { name, fromMonth, rateBps: 1 }, at), noted)
    }
    const listed = (await store.listTiers()).map(({ name, place }) => `${name} ${place}`)
    assert.deepEqual(listed, ['starter 1', 'growth 2', 'scale 3', 'zz 4', 'aa 5', 'zz 4'])
  })

  test('a tier without a volume stays without one', async ({ store }) => {
    const tier = { ...TIER, name: 'vip', place: 4, minVolume: null }
    await store.putTier(() => tier, noted)
    assert.deepEqual((await store.listTiers()).at(-1), tier)
    await store.putTier(() => ({ ...tier, minVolume: usd('5') }), noted)
    await store.putTier(() => tier, noted)
    assert.deepEqual((await store.listTiers()).at(-1), tier)
  })
}

const TIER = {
  name: 'growth',
  fromMonth: '2026-02',
  place: 2,
  minVolume: usd('500000'),
  rateBps: 33,
  perActiveUser: usd('0.10'),
  monthlyMinimum: usd('99.00'),
}
const SHIPPED = [
  ['starter', 50],
  ['growth', 35],
  ['scale', 20],
]

// The audit log: read in pages, by time, and by partner.

export const auditContract: Contract = (test) => {
  test('the audit log is read in pages behind a cursor', async ({ store }) => {
    for (let i = 0; i < 4; i++) await store.changePartner('acme', (seen) => seen, note(`change ${i}`))
    const all = await auditOf(store)
    const first = await store.listAudit({ after: null, limit: 2 })
    const rest = await store.listAudit({ after: first[1]?.auditId ?? 0, limit: 1_000 })
    assert.deepEqual([...first, ...rest], all)
  })

  test('the audit log gives the entries of a time, and those about a partner', async (world) => {
    const { store, acme, acmeLive, bolt, now, advance } = world
    const since = now()
    const add = async (action: string, subject: string, detail = {}) => {
      await store.changePartner('acme', (seen) => seen, { osUser: 'ops', action, subject, detail })
      advance(1)
    }
    await enrol(store, acme)
    await tick(world, '60000')
    const [execution = ''] = (await poll(store, acme)).map(({ executionId }) => executionId)
    const [own, other] = [keyFor(acmeLive), keyFor(bolt)]
    for (const key of [own, other]) await store.addKey(key, AUDIT)
    const [mine, notMine] = [await store.findKey(own.sha256), await store.findKey(other.sha256)]
    const about: [action: string, subject: string, detail?: object][] = [
      ['partner.hold', 'acme'],
      ['key.revoke', mine?.key.keyId ?? ''],
      ['trade.adjust', execution],
      ['execution.cancel', execution],
      ['user.erase', 'u', { partner_slug: 'acme' }],
      ['plan.bring-back', 'acme live plan p'],
      ['sandbox.reset', 'acme'],
      ['webhook.resume', 'acme live'],
    ]
    const strange: typeof about = [
      ['partner.hold', 'bolt'],
      ['key.revoke', notMine?.key.keyId ?? ''],
      ['trade.adjust', 'exec_of_nobody'],
      ['user.erase', 'acme', { partner_slug: 'bolt' }],
      ['plan.bring-back', 'acme-2 live plan p'],
      ['webhook.resume', 'acme-2 live'],
      ['tier.set', 'acme'],
      ['database.restore', 'acme'],
    ]
    for (const entry of [...about, ...strange]) await add(...entry)
    const page = { after: null, limit: 100 }
    const seen = await store.listAudit(page, { since, until: null, slug: 'acme' })
    const made = seen.filter(({ action }) => action !== AUDIT.action)
    const asked = about.map(([action, subject]) => [action, subject])
    assert.deepEqual(each(made, 'action', 'subject'), asked)
    // Each entry names its partner, whichever is requested.
    const entries = await store.listAudit(page, { since, until: null, slug: null })
    const all = entries.filter(({ action }) => action !== AUDIT.action)
    const partners = [...about.map(() => 'acme'), 'bolt', 'bolt', null, 'bolt', null, null, null, null]
    assert.deepEqual(each(all, 'partnerSlug'), partners)
    const [second, third] = [made[1]?.at ?? since, made[2]?.at ?? since]
    const between = await store.listAudit(page, { since: second, until: third, slug: null })
    assert.deepEqual(each(between, 'action'), ['key.revoke'])
  })
}
