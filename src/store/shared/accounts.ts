// Partners, their tenants, keys, webhooks and tiers.

import { refusePastMonth, refuseTierNotInForce } from '../../core/fees.ts'
import type { ApiKey, KeyFacts } from '../../core/key.ts'
import { ENVIRONMENTS, newPartner, type Partner, type Tenant } from '../../core/partner.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { type Instant, monthOf } from '../../core/time.ts'
import {
  DELIVERIES_KEPT,
  type Delivered,
  deliveredAt,
  TESTS_PER_MINUTE,
  type Webhook,
} from '../../core/webhook.ts'
import {
  changedKeyParams,
  deliveryOf,
  deliveryParams,
  keyOf,
  keyParams,
  partnerOf,
  partnerParams,
  seenKeyOf,
  tenantOf,
  tierOf,
  tierParams,
  webhookOf,
  webhookParams,
} from '../rows/accounts.ts'
import { OF_TENANT, ROTATED } from '../sql/fragments.ts'
import { atOf, query } from '../statement.ts'
import type {
  KeyStore,
  MinimumEnd,
  NewKey,
  OverrideStart,
  PartnerStore,
  TierStore,
  WebhookStore,
} from '../store.ts'
import { columnsToAdd, insertInto, type NewRow, putInto, type RowOf, updateOf } from '../tables.ts'
import {
  aloneIn,
  type Base,
  callOf,
  NOTHING,
  ofTenant,
  type ReadTx,
  type Step,
  type Steps,
  type Tx,
} from '../transaction.ts'
import { askTogether } from '../writes.ts'
import { addAudit } from './audit.ts'

const PARTNER = query('select * from partners where partner_slug = :slug', partnerOf)
const PARTNERS = query('select * from partners order by created_at, partner_slug', partnerOf)
/** On a server, this waits while another transaction adds a partner of the same name. */
const INSERT_PARTNER = query(`${insertInto('partners')} on conflict do nothing returning *`, partnerOf)
const UPDATE_PARTNER = updateOf('partners', ['partner_slug'], columnsToAdd('partners', 'partner_slug'))
/** An end that is set again in the same month replaces the earlier one. */
const PUT_MINIMUM_END = query(putInto('minimum_ends'))
const INSERT_TENANT = query(insertInto('tenants'))
const TENANT = query(
  'select * from tenants where partner_slug = :slug and environment = :environment',
  tenantOf,
)
const TENANTS_OF = query('select * from tenants where partner_slug = :slug order by tenant_id', tenantOf)
const TENANTS = query(
  `select t.* from tenants t join partners p on p.partner_slug = t.partner_slug
   where ${OF_TENANT} and (cast(:before as bigint) is null or p.created_at < :before)
   order by t.partner_slug, t.environment`,
  tenantOf,
)

/** How a store updates a partner's schedules after a change of its status, hold or minimum. */
export type Following = {
  /** In the transaction that changes the partner. */
  begin: (tx: Tx, partner: Partner, before: Partner) => Step<unknown>
  /** After its commit: resolves when all of the partner's schedules are updated. */
  finish: (slug: string) => Promise<void>
}
export function createPartnerStore({ look, write }: Base, following: Following): PartnerStore {
  return {
    addPartner: ({ partnerSlug: slug, name }, entry) =>
      write(function* (tx) {
        const { real } = yield* tx.times
        const added = newPartner({ partnerSlug: slug, name }, real)
        const partner = yield* tx.get(INSERT_PARTNER, partnerParams(added))
        if (!partner) throw new Problem('partner_exists', `Partner ${slug} exists already.`)
        const tenants = ENVIRONMENTS.map((environment) =>
          tx.run(INSERT_TENANT, { partner_slug: slug, environment } satisfies NewRow<'tenants'>),
        )
        yield* tx.together(...tenants, addAudit(tx, entry, real))
        return partner
      }),

    /** Locks the tenants: a write that needs the partner's status, hold or minimum has committed first, or waits. */
    async changePartner(slug, decide, entry) {
      const tenants = await look((tx) => tx.all(TENANTS_OF, { slug }))
      if (tenants.length === 0) throw notFound('partner', slug)
      const changed = await write(
        function* (tx) {
          const [{ real }, before] = yield* tx.together(tx.times, tx.get(PARTNER, { slug }))
          if (!before) throw notFound('partner', slug)
          const { lastMinimum, ...partner } = decide(before, real)
          const reaches =
            partner.status !== before.status ||
            partner.held !== before.held ||
            partner.minTranche !== before.minTranche
          yield* tx.together(
            tx.run(UPDATE_PARTNER, { rows: [partnerParams(partner)] }),
            lastMinimum === undefined ? NOTHING : endMinimum(tx, { slug, month: monthOf(real) }, lastMinimum),
            tx.when(reaches, () => following.begin(tx, partner, before)),
            addAudit(tx, entry, real),
          )
          return { partner, reaches }
        },
        { tenants: tenants.map(({ tenantId }) => tenantId), alone: 'tenants' },
      )
      if (changed.reaches) await following.finish(slug)
      return changed.partner
    },

    findPartner: async (slug) => (await look((tx) => tx.get(PARTNER, { slug }))) ?? null,
    listPartners: () => look((tx) => tx.all(PARTNERS)),
    findTenant: async (slug, environment) =>
      (await look((tx) => tx.get(TENANT, { slug, environment }))) ?? null,
    listTenants: (filter, before) => look((tx) => tx.all(TENANTS, { ...filter, before })),
  }
}

/** Sets the last month with a minimum, from a month on. An end that already holds is not stored again. */
function* endMinimum(tx: Tx, of: { slug: string; month: string }, lastMonth: string | null): Steps<void> {
  if (((yield* tx.get(MINIMUM_END, of)) ?? null) === lastMonth) return
  yield* tx.run(PUT_MINIMUM_END, {
    partner_slug: of.slug,
    from_month: of.month,
    last_month: lastMonth,
  } satisfies NewRow<'minimum_ends'>)
}

const KEY_COLUMNS = 'k.*, t.partner_slug, t.environment'
const SELECT_KEY = `select ${KEY_COLUMNS} from api_keys k join tenants t using (tenant_id)`
const KEY = query(`${SELECT_KEY} where k.key_id = :key_id`, keyOf)
const LOCK_KEY = query('select from api_keys where key_id = :key_id for no key update')
const KEYS_OF = query(`${SELECT_KEY} where t.partner_slug = :slug order by k.created_at, k.key_id`, keyOf)
const IS_ROTATED = query(`select 1 as rotated where ${ROTATED(':key_id')}`)
const INSERT_KEY = query(insertInto('api_keys'))
const UPDATE_KEY = updateOf('api_keys', ['key_id'], ['label', 'expires_at', 'revoked_at'])
const MARK_USED = query('update api_keys set last_used_at = :now where key_id = :key_id')

const BY_SECRET = query(
  ({ among }) =>
    `select ${KEY_COLUMNS}, r.name as partner_name, r.status as partner_status
     from api_keys k join tenants t using (tenant_id) join partners r using (partner_slug)
     where ${among('k.key_sha256', 'hashes', 'text')}`,
  seenKeyOf,
)

/**
 * How a call finds its key, by the hash of its secret: the secret itself is stored nowhere. Nothing is cached: when a
 * key is revoked or its partner disabled, by whatever process, the next call is refused.
 */
function keyFinder({ look }: Base, keysAtOnce: boolean): KeyStore['findKey'] {
  const findAll = (hashes: readonly string[]) => look((tx) => findKeys(tx, hashes), { caller: 'unknown' })
  const findTogether = askTogether(findAll)
  return async (sha256, { atOnce } = { atOnce: false }) =>
    atOnce && keysAtOnce ? ((await findAll([sha256]))[0] ?? null) : findTogether(sha256)
}

function* findKeys(tx: ReadTx, hashes: readonly string[]): Steps<(KeyFacts | null)[]> {
  const [now, keys] = yield* tx.together(tx.present, tx.all(BY_SECRET, { hashes }))
  const found = new Map(keys.map(({ sha256, ...key }) => [sha256, { ...key, now }]))
  return hashes.map((hash) => found.get(hash) ?? null)
}

export function createKeyStore(base: Base, { keysAtOnce }: { keysAtOnce: boolean }): KeyStore {
  const { look, write } = base
  return {
    findKey: keyFinder(base, keysAtOnce),

    markKeyUsed: (tenant, keyId) =>
      write(function* (tx) {
        const now = yield* tx.clock
        yield* tx.run(MARK_USED, { key_id: keyId, now })
      }, callOf(tenant)),

    addKey: (key, entry) =>
      write(function* (tx) {
        const [{ real }, now] = yield* tx.together(tx.times, tx.clock)
        const [added] = yield* tx.together(insertKey(tx, key, now), addAudit(tx, entry, real))
        return added
      }, ofTenant(key.tenant)),

    /** Alone in the key's tenant: every write by that key has committed by then, or sees that it has ended. */
    async changeKey(keyId, decide, entry) {
      const of = { key_id: keyId }
      const found = await look((tx) => tx.get(KEY, of))
      if (!found) throw notFound('key', keyId)
      return write(function* (tx) {
        const [, current, rotated, { real }, now] = yield* tx.together(
          tx.lock(LOCK_KEY, of),
          tx.get(KEY, of),
          tx.get(IS_ROTATED, of),
          tx.times,
          tx.clock,
        )
        if (!current) throw notFound('key', keyId)
        const time = { now: real, clock: now, isRotated: rotated !== undefined }
        const { key, successor } = decide(current, time)
        const [added] = yield* tx.together(
          successor ? insertKey(tx, successor, now) : NOTHING,
          tx.run(UPDATE_KEY, { rows: [changedKeyParams(key)] }),
          addAudit(tx, entry, real),
        )
        return { key, successor: added ?? null }
      }, aloneIn(found.tenant))
    },

    listKeys: (slug) => look((tx) => tx.all(KEYS_OF, { slug })),
  }
}

function* insertKey(tx: Tx, key: NewKey, now: Instant): Steps<ApiKey> {
  const [, added] = yield* tx.together(
    tx.run(INSERT_KEY, keyParams(key, now)),
    tx.get(KEY, { key_id: key.keyId }),
  )
  if (!added) throw new Error(`key ${key.keyId} was not kept`)
  return added
}

/** The tenant's row exists even when its webhook does not: every write of a webhook locks it. */
const LOCK_WEBHOOK = query('select from tenants where tenant_id = :tenant for no key update')
const WEBHOOK = query('select * from webhooks where tenant_id = :tenant', webhookOf)
const DELETE_WEBHOOK = query('delete from webhooks where tenant_id = :tenant')
const PUT_WEBHOOK = query(putInto('webhooks'))

const LAST_NUMBER = '(select coalesce(max(number), 0) from webhook_deliveries where tenant_id = :tenant)'
const INSERT_DELIVERY = query(
  insertInto('webhook_deliveries', { tenant_id: ':tenant', number: `${LAST_NUMBER} + 1` }),
)
const FORGET_DELIVERIES = query(
  `delete from webhook_deliveries where tenant_id = :tenant and number <= ${LAST_NUMBER} - ${DELIVERIES_KEPT}`,
)
const DELIVERIES = query(
  'select * from webhook_deliveries where tenant_id = :tenant order by number desc limit :limit',
  deliveryOf,
)
const TESTS = query(
  `select ended_at as at from webhook_deliveries where tenant_id = :tenant and count = 0
   order by number desc limit :limit`,
  atOf,
)

/** Records a wake-up that was sent, and removes records that are then too old. The webhook is locked. */
const addDelivery = (tx: Tx, { tenantId: tenant }: Tenant, sent: Delivered): Step<unknown> =>
  tx.together(
    tx.run(INSERT_DELIVERY, { tenant, ...deliveryParams(sent) }),
    tx.run(FORGET_DELIVERIES, { tenant }),
  )

const putWebhook = (tx: Tx, { tenantId }: Tenant, webhook: Webhook): Step<unknown> =>
  tx.run(PUT_WEBHOOK, webhookParams(tenantId, webhook))

export const createWebhookStore = ({ look, write }: Base): WebhookStore => ({
  findWebhook: async (tenant) =>
    (await look((tx) => tx.get(WEBHOOK, { tenant: tenant.tenantId }), callOf(tenant))) ?? null,

  changeWebhook: (tenant, decide, entry) =>
    write(function* (tx) {
      const of = { tenant: tenant.tenantId }
      const [, before = null, { real }] = yield* tx.together(
        tx.lock(LOCK_WEBHOOK, of),
        tx.get(WEBHOOK, of),
        tx.times,
      )
      const webhook = decide(before, real)
      yield* tx.together(putWebhook(tx, tenant, webhook), entry ? addAudit(tx, entry, real) : NOTHING)
      return webhook
    }, callOf(tenant)),

  noteAttempt: (wakeUp, attempt, decide) =>
    write(function* (tx) {
      const { tenant } = wakeUp
      const of = { tenant: tenant.tenantId }
      const [, before = null, { real }] = yield* tx.together(
        tx.lock(LOCK_WEBHOOK, of),
        tx.get(WEBHOOK, of),
        tx.times,
      )
      // Every registration has a new secret: the outcome of an attempt with an older one does not concern this one.
      const changed = before?.secret === wakeUp.webhook.secret ? decide(before, real) : null
      yield* tx.together(
        addDelivery(tx, tenant, deliveredAt(wakeUp, attempt, real)),
        changed ? putWebhook(tx, tenant, changed) : NOTHING,
      )
      return changed ?? before
    }, ofTenant(wakeUp.tenant)),

  readyToTest: (tenant) =>
    write(function* (tx) {
      const of = { tenant: tenant.tenantId }
      const [webhook = null, tests, { real }] = yield* tx.together(
        tx.get(WEBHOOK, of),
        tx.all(TESTS, { ...of, limit: TESTS_PER_MINUTE }),
        tx.times,
      )
      return { webhook, tests, now: real }
    }, callOf(tenant)),

  noteTest: (tenant, wakeUp, attempt) =>
    write(function* (tx) {
      const [, { real }] = yield* tx.together(tx.lock(LOCK_WEBHOOK, { tenant: tenant.tenantId }), tx.times)
      const sent = deliveredAt(wakeUp, attempt, real)
      yield* addDelivery(tx, tenant, sent)
      return sent
    }, ofTenant(tenant)),

  listDeliveries: (tenant) =>
    look((tx) => tx.all(DELIVERIES, { tenant: tenant.tenantId, limit: DELIVERIES_KEPT }), callOf(tenant)),

  deleteWebhook: (tenant) =>
    write(function* (tx) {
      const of = { tenant: tenant.tenantId }
      const [, deleted] = yield* tx.together(tx.lock(LOCK_WEBHOOK, of), tx.run(DELETE_WEBHOOK, of))
      return deleted > 0
    }, callOf(tenant)),
})

// Tiers and the overrides of single partners, each in force from a month on.

const SINCE = query('select created_at as at from partners where partner_slug = :slug', atOf)
/** A decision on a tier depends on all the others, so only one write at a time may change them. */
const ALONE = query('lock table tiers in share row exclusive mode')
const LIST = query('select * from tiers order by from_month, place', tierOf)
const PUT = query(putInto('tiers', {}, 'place'))
const FIRST_MONTH = query<{ month: string | null }>(
  'select min(from_month) as month from tiers where name = :tier',
)
const PUT_OVERRIDE = query(putInto('tier_overrides'))
/** Null for an override that ends another. */
const OVERRIDE = query(
  `select * from tier_overrides where partner_slug = :slug and from_month <= :month
   order by from_month desc limit 1`,
  ({ tier_name }: RowOf<'tier_overrides'>) => tier_name,
)
const OVERRIDES_AFTER = query<OverrideStart>(
  `select from_month as "fromMonth", tier_name as "tierName" from tier_overrides
   where partner_slug = :slug and from_month > :month order by from_month`,
)
/** The last month with a minimum, as set in a month or before it; null if it has no end. */
const MINIMUM_END = query(
  `select * from minimum_ends where partner_slug = :slug and from_month <= :month
   order by from_month desc limit 1`,
  ({ last_month }: RowOf<'minimum_ends'>) => last_month,
)
const MINIMUM_ENDS = query<MinimumEnd>(
  `select from_month as "fromMonth", last_month as "lastMonth" from minimum_ends
   where partner_slug = :slug order by from_month`,
)

export const createTierStore = ({ look, read, write }: Base): TierStore => ({
  readTerms: ({ tenantId, partnerSlug: slug }, month) =>
    read(function* (tx) {
      const [tiers, override = null, lastMinimum = null, partnerSince = null] = yield* tx.together(
        tx.all(LIST),
        tx.get(OVERRIDE, { slug, month }),
        tx.get(MINIMUM_END, { slug, month }),
        tx.get(SINCE, { slug }),
      )
      return { tiers, override, lastMinimum, partnerSince }
    }, callOf({ tenantId })),

  listTiers: () => look((tx) => tx.all(LIST)),

  putTier: (decide, entryOf) =>
    write(function* (tx) {
      const [{ real }, , versions] = yield* tx.together(tx.times, tx.lock(ALONE), tx.all(LIST))
      const tier = decide(versions, real)
      yield* tx.together(tx.run(PUT, tierParams(tier)), addAudit(tx, entryOf(tier), real))
      return tier
    }),

  putTierOverride: ({ partnerSlug: slug, fromMonth, tierName: tier }, entry) =>
    write(function* (tx) {
      const [{ real }, partner] = yield* tx.together(tx.times, tx.get(SINCE, { slug }))
      if (!partner) throw notFound('partner', slug)
      const from_month = fromMonth ?? monthOf(real)
      refusePastMonth(from_month, monthOf(real))
      if (tier !== null) {
        const first = yield* tx.get(FIRST_MONTH, { tier })
        refuseTierNotInForce(tier, first?.month ?? null, from_month)
      }
      yield* tx.together(
        tx.run(PUT_OVERRIDE, {
          partner_slug: slug,
          from_month,
          tier_name: tier,
        } satisfies NewRow<'tier_overrides'>),
        addAudit(tx, entry, real),
      )
      return from_month
    }),

  findTierOverride: async (slug, month) => (await look((tx) => tx.get(OVERRIDE, { slug, month }))) ?? null,

  listTierOverridesAfter: (slug, month) => look((tx) => tx.all(OVERRIDES_AFTER, { slug, month })),

  findLastMinimum: async (slug, month) => (await look((tx) => tx.get(MINIMUM_END, { slug, month }))) ?? null,

  listMinimumEnds: (slug) => look((tx) => tx.all(MINIMUM_ENDS, { slug })),
})
