// Brings a partner's schedules, of which there may be a million, in line with its status, hold and minimum, page by
// page. A change is in force at once, because every page of a pass reads the partner itself (../pass/plan-page.ts);
// what is done here keeps the indexes of what is due in step. Until the last page, a row says how far this has come, so
// that if the process dies, the next pass goes on (docs/decisions/commits.md#a-hold-of-many-plans).

import type { Tenant } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import type { User } from '../../core/user.ts'
import {
  type ConsentRow,
  consentOf,
  consentParams,
  erasedParams,
  type ListedUserRow,
  listedUserOf,
  type SeenKeyRow,
  seenKeyOf,
  type UserRow,
  userOf,
  userParams,
} from '../rows/accounts.ts'
import { type PlanRow, planOf } from '../rows/ledger.ts'
import type { Following } from '../shared/accounts.ts'
import {
  ERASE_USER,
  KEEP_CONSENT,
  LISTED_USER,
  LISTED_USERS,
  SELECT_SEEN_KEY,
  SELECT_USER,
} from '../sql/accounts.ts'
import { IS_AWAKE, leastInstructionOf } from '../sql/ledger.ts'
import type { KeyStore, UserStore } from '../store.ts'
import { callOf, ofTenant, query as sharedQuery } from '../transaction.ts'
import { askTogether } from '../writes.ts'
import { addAudit } from './audit.ts'
import { createStops, lockSchedules, type StopCounts } from './plans.ts'
import type { Connection, WriteTx } from './server/connection.ts'
import type { Tx } from './server/pipeline.ts'
import { query } from './server/statement.ts'

/** Plans in one transaction, which holds their schedules for so long. */
const PLANS_PER_PAGE = 500

type Reached = { tenant_id: bigint; partner_plan_id: string }

const BEGIN = sharedQuery(
  `insert into schedules_behind (partner_slug) values (:slug)
   on conflict (partner_slug) do update set tenant_id = 0, partner_plan_id = ''`,
)
const LOCK = query<Reached>('select * from schedules_behind where partner_slug = :slug for update')
const LOCK_UNLESS_BUSY = query<Reached>(
  'select * from schedules_behind where partner_slug = :slug for update skip locked',
)
const BEHIND = query<{ partner_slug: string }>(
  'select partner_slug from schedules_behind order by partner_slug',
)
const TENANTS_OF_PARTNER = query<{ tenant_id: bigint }>(
  'select tenant_id from tenants where partner_slug = :slug order by tenant_id',
)
const PLANS_OF_TENANT = query<{ plan_id: bigint; partner_plan_id: string }>(
  `select plan_id, partner_plan_id from plans where tenant_id = :tenant and partner_plan_id > :after
   order by partner_plan_id limit :limit`,
)
const FLOOR = leastInstructionOf('r.min_tranche', 's.budget')
const FOLLOW = query(
  `update schedules s set awake = ${IS_AWAKE}, floor = ${FLOOR}
   from plans p join tenants t on t.tenant_id = p.tenant_id join partners r on r.partner_slug = t.partner_slug
   where s.plan_id = any(:plan_ids::bigint[]) and p.plan_id = s.plan_id
     and (s.awake <> ${IS_AWAKE} or s.floor <> ${FLOOR})`,
)
const NOTE = query(
  'update schedules_behind set tenant_id = :tenant, partner_plan_id = :after where partner_slug = :slug',
)
const END = query('delete from schedules_behind where partner_slug = :slug')

/**
 * Does one more page. False when there is nothing left, or when another process is at work on it and need not be waited
 * for.
 */
async function goOn(tx: Tx, slug: string, lock: typeof LOCK): Promise<boolean> {
  const [reached, tenants] = await Promise.all([tx.get(lock, { slug }), tx.all(TENANTS_OF_PARTNER, { slug })])
  if (!reached) return false
  const tenant = tenants.find(({ tenant_id }) => tenant_id >= reached.tenant_id)?.tenant_id
  if (tenant === undefined) {
    await tx.run(END, { slug })
    return false
  }
  const after = tenant === reached.tenant_id ? reached.partner_plan_id : ''
  const plans = await tx.all(PLANS_OF_TENANT, { tenant, after, limit: PLANS_PER_PAGE })
  const plan_ids = plans.map(({ plan_id }) => Number(plan_id))
  const last = plans.length < PLANS_PER_PAGE ? null : plans.at(-1)
  await Promise.all([
    lockSchedules(tx, plan_ids),
    tx.run(FOLLOW, { plan_ids }),
    tx.run(NOTE, { slug, tenant: last ? tenant : tenant + 1n, after: last?.partner_plan_id ?? '' }),
  ])
  return true
}

export function createFollowing({ look, write }: Connection): Following & {
  /** Completes what no process is working on any more. */
  finishLeft: () => Promise<void>
} {
  async function follow(slug: string, lock: typeof LOCK): Promise<void> {
    const rows = await look((tx) => tx.all(TENANTS_OF_PARTNER, { slug }))
    const tenants = rows.map(({ tenant_id }) => Number(tenant_id))
    while (await write((tx) => goOn(tx, slug, lock), { tenants }));
  }

  return {
    begin: (tx, { partnerSlug: slug }) => tx.run(BEGIN, { slug }),
    finish: (slug) => follow(slug, LOCK),

    async finishLeft() {
      const left = await look((tx) => tx.all(BEHIND))
      for (const { partner_slug } of left) await follow(partner_slug, LOCK_UNLESS_BUSY)
    },
  }
}

// How a call finds its key on a server, by the hash of its secret: the secret itself is stored nowhere. Nothing is
// remembered, as a file does it (../../sqlite/accounts/keys.ts): when a key is revoked or its partner disabled on any
// host, the next call on every host is refused.

const BY_SECRET = query<SeenKeyRow>(`${SELECT_SEEN_KEY} where k.key_sha256 = any(:hashes::text[])`)

export const createKeyFinder = ({ look, clock }: Connection): KeyStore['findKey'] =>
  askTogether(async (hashes) => {
    const [rows, now] = await look((tx) => Promise.all([tx.all(BY_SECRET, { hashes }), clock.present(tx)]), {
      caller: 'unknown',
    })
    const found = new Map(rows.map((row) => [row.key_sha256, row]))
    return hashes.map((hash) => {
      const row = found.get(hash)
      return row ? { ...seenKeyOf(row), now } : null
    })
  })

// The users of a tenant. Every change of a user, its plans or its stop holds a lock on the user's row.

type Decide = Parameters<UserStore['changeUser']>[2]
type Scope = { tenant: number; partner_user_id: string }
type Step = { stopping: bigint | null; changed: ({ user: User } & StopCounts) | null }

const LOCK_USER = query<UserRow>(`${SELECT_USER} for no key update`)
const INSERT_USER = query<{ user_id: bigint }>(
  `insert into users (tenant_id, partner_user_id, email, auth_provider, consent_version, consent_timestamp,
     status, created_at, updated_at, digest)
   values (:tenant_id, :partner_user_id, :email, :auth_provider, :consent_version, :consent_timestamp,
     :status, :created_at, :updated_at, :digest)
   on conflict do nothing returning user_id`,
)
const UPDATE_USER = query(
  `update users set email = :email, auth_provider = :auth_provider, consent_version = :consent_version,
     consent_timestamp = :consent_timestamp, status = :status, updated_at = :updated_at,
     digest = :digest
   where tenant_id = :tenant_id and partner_user_id = :partner_user_id`,
)
const KEEP = query(KEEP_CONSENT)
const LIST_USERS = query<ListedUserRow>(LISTED_USERS)
const ONE = query<ListedUserRow>(LISTED_USER)
const THIS_USER =
  '(select user_id from users where tenant_id = :tenant and partner_user_id = :partner_user_id)'
const CONSENTS = query<ConsentRow>(
  `select * from consents where user_id = ${THIS_USER} order by received_at, consent_id`,
)
const PLANS = query<PlanRow>(
  `select p.*, u.partner_user_id from plans p join users u using (user_id)
   where p.user_id = ${THIS_USER} order by p.plan_id`,
)

/** Stores a user that was seen as `row`. Null when somebody else has linked it since. */
async function put(tx: Tx, user: User, seen: { row: UserRow | undefined; scope: Scope }, now: Instant) {
  const { row, scope } = seen
  const params = userParams(user, scope.tenant, row)
  const userId = row?.user_id ?? (await tx.get(INSERT_USER, params))?.user_id ?? null
  if (userId === null) return null
  await Promise.all([row && tx.run(UPDATE_USER, params), tx.run(KEEP, consentParams(user, userId, now))])
  return userId
}

export function createUserStore(connection: Connection): UserStore {
  const stops = createStops(connection)

  /** One transaction of a change. What is left of a disable under way, `stopping`, is finished before the answer. */
  async function change(tx: WriteTx, tenant: Tenant, scope: Scope, decide: Decide): Promise<Step> {
    const [row, times] = await Promise.all([tx.get(LOCK_USER, scope), tx.times])
    const now = times.of(tenant.tenantId)
    const seen = row ? userOf(row) : null
    const { user, stopsPlans } = decide(seen, now)
    const isStopping = row?.status === 'disabled' && (await stops.isStopping(tx, row.user_id))
    // Linked again only when all of the user's plans are stopped.
    if (isStopping && user.status === 'linked') return { stopping: row.user_id, changed: null }
    const userId = user === seen ? row?.user_id : await put(tx, user, { row, scope }, now)
    // Decided again, by the state in which the other transaction left the user.
    if (userId === null || userId === undefined) return change(tx, tenant, scope, decide)
    const changed = { user, plansPaused: 0, executionsCancelled: 0 }
    if (!stopsPlans) return { stopping: null, changed }
    if (seen?.status === 'disabled') return { stopping: isStopping ? userId : null, changed }
    const stopped = await stops.begin(tx, tenant, userId, now)
    return { stopping: stopped ? null : userId, changed: { ...changed, ...stopped } }
  }

  return {
    async changeUser(tenant, partnerUserId, decide) {
      const scope = { tenant: tenant.tenantId, partner_user_id: partnerUserId }
      for (;;) {
        const { stopping, changed } = await connection.write(
          (tx) => change(tx, tenant, scope, decide),
          callOf(tenant),
        )
        const stopped = stopping === null ? null : await stops.finish(tenant, stopping)
        if (changed) return { ...changed, ...stopped }
      }
    },

    listUsers: async ({ tenantId }, { after, limit }) => {
      const rows = await connection.look((tx) =>
        tx.all(LIST_USERS, { tenant: tenantId, after: after ?? 0, limit }),
      )
      return rows.map(listedUserOf)
    },

    async findUser({ tenantId }, partnerUserId) {
      const scope = { tenant: tenantId, partner_user_id: partnerUserId }
      const [row, consents, plans] = await connection.read((tx) =>
        Promise.all([tx.get(ONE, scope), tx.all(CONSENTS, scope), tx.all(PLANS, scope)]),
      )
      return row
        ? { ...listedUserOf(row), consents: consents.map(consentOf), plans: plans.map(planOf) }
        : null
    },

    eraseUser: createEraser(connection),
  }
}

// Erases a user's personal data from its row: what a server has on its disk is not the store's to overwrite.

const LOCK_ERASED = query<UserRow>(`${SELECT_USER} for no key update`)
const ERASE = query(ERASE_USER)
const ELSEWHERE = query<{ one: bigint }>(
  'select 1 as one from users where email = :text or strpos(partner_user_id, :text) > 0 limit 1',
)

/**
 * From the commit on, no query finds the e-mail. The bytes stay for a while: in the dead row until autovacuum frees its
 * place and another row takes it, in the log until its segment is reused, on every standby and in every archive. A
 * vacuum here would not help: it frees the place without overwriting it, and the log would keep the text anyway. So
 * `remains` is never 'nowhere'.
 */
function createEraser(connection: Connection): UserStore['eraseUser'] {
  return async (tenant, partnerUserId, entry) => {
    const scope = { tenant: tenant.tenantId, partner_user_id: partnerUserId }
    const { before, now } = await connection.write(async (tx) => {
      const [row, { real }] = await Promise.all([tx.get(LOCK_ERASED, scope), tx.times])
      if (!row) throw new Problem('user_not_found', `User ${partnerUserId} not found.`)
      await Promise.all([tx.run(ERASE, erasedParams(row, real)), addAudit(tx, entry, real)])
      return { before: userOf(row), now: real }
    }, ofTenant(tenant))
    const text = before.email
    const elsewhere = text !== null && (await connection.look((tx) => tx.get(ELSEWHERE, { text })))
    const user = { ...before, email: null, authProvider: null, updatedAt: now }
    return { user, erasedAt: now, remains: elsewhere ? 'other_row' : 'server' }
  }
}
