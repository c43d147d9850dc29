// The users of a tenant: linked and changed, disabled, erased. On a server every change of a user, its plans or its
// stop holds a lock on the user's row.

import type { Caller, Tenant } from '../../core/partner.ts'
import { notFound } from '../../core/problem.ts'
import { type Instant, plus } from '../../core/time.ts'
import { CONSENTS_SHOWN, type User } from '../../core/user.ts'
import { type Erasure, erasureHash } from '../erasures.ts'
import {
  consentOf,
  consentParams,
  listedUserOf,
  tenantOf,
  type UserRow,
  userOf,
  userParams,
} from '../rows/accounts.ts'
import { planOf } from '../rows/ledger.ts'
import { AWAKE, SELECT_USER } from '../sql/fragments.ts'
import { instantOrNull, query } from '../statement.ts'
import type { AuditEntry, Remains, UserStore } from '../store.ts'
import { assigned, columnsToAdd, hasPersonal, insertInto, PERSONAL, putInto } from '../tables.ts'
import { type Base, callOf, ofTenant, type Step, type Steps, type Tx, type WriteTx } from '../transaction.ts'
import { addAudit } from './audit.ts'
import { cancelOpen, LOCK_USER, lockSchedules } from './ledger.ts'

type Decide = Parameters<UserStore['changeUser']>[2]
type Named = { tenant: number; partner_user_id: string }

const USER = query<UserRow>(SELECT_USER)
const userIdOf = (row: { user_id: bigint }): bigint => row.user_id
const INSERT = query(`${insertInto('users')} on conflict do nothing returning user_id`, userIdOf)
const UPDATE = query(
  `update users set ${assigned(columnsToAdd('users', 'tenant_id', 'partner_user_id', 'created_at'))}
   where tenant_id = :tenant_id and partner_user_id = :partner_user_id`,
)
const KEEP_CONSENT = query(`${insertInto('consents')} on conflict do nothing`)
const SELECT_LISTED = `select u.*, t.partner_slug, t.environment from users u join tenants t using (tenant_id)
  where u.tenant_id = :tenant`
const LIST = query(`${SELECT_LISTED} and u.user_id > :after order by u.user_id limit :limit`, listedUserOf)
const ONE = query(`${SELECT_LISTED} and u.partner_user_id = :partner_user_id`, listedUserOf)
const THIS_USER =
  '(select user_id from users where tenant_id = :tenant and partner_user_id = :partner_user_id)'
const CONSENTS = query(
  `select * from consents where user_id = ${THIS_USER} order by received_at, consent_id`,
  consentOf,
)
const NEWEST_CONSENTS = query(
  `select * from consents where user_id = ${THIS_USER} order by received_at desc, consent_id desc limit :limit`,
  consentOf,
)
const PAGE = query(
  `select * from users where tenant_id = :tenant and partner_user_id > :after
   order by partner_user_id limit :limit`,
  userOf,
)
const PLANS_OF = query(
  `select p.*, u.partner_user_id from plans p join users u using (user_id)
   where p.user_id = ${THIS_USER} order by p.plan_id`,
  planOf,
)
const ERASE = query('update users set erased_at = :at, updated_at = :now where user_id = :user_id')
const FORGET = PERSONAL.map(({ name, columns }) =>
  query(
    `update ${name} set ${columns.map((column) => `${column} = null`).join(', ')} where user_id = :user_id`,
  ),
)
const NEVER = Number.NEGATIVE_INFINITY as Instant
const latest = (instants: readonly Instant[]): Instant => Math.max(NEVER, ...instants) as Instant
const USERS_PER_PAGE = 1_000
const WITH_DATA = query<{ user_id: bigint; partner_user_id: string; erased_at: bigint | null }>(
  `select user_id, partner_user_id, erased_at from users
   where tenant_id = :tenant and user_id > :after and ${hasPersonal('users')}
   order by user_id limit :limit`,
)
const KEYS = query<{ key_sha256: string }>(
  'select key_sha256 from api_keys where tenant_id = :tenant order by created_at, key_id',
)
const TENANTS = query('select * from tenants order by tenant_id', tenantOf)
const ELSEWHERE = query<{ one: bigint }>(
  `select 1 as one from users
   where email = :text or replace(partner_user_id, :text, '') <> partner_user_id limit 1`,
)

export type OwnErasing = {
  overwrite: (text: string | null) => Promise<Remains>
  remember: (tx: Tx, erasures: readonly Erasure[]) => Step<unknown>
}

export function createUserStore(base: Base, erasing: OwnErasing): UserStore {
  const { look, read, write } = base
  return {
    ...createUserReader(base),
    ...createEraser(base, erasing),

    async changeUser(tenant, partnerUserId, decide) {
      const named = { tenant: tenant.tenantId, partner_user_id: partnerUserId }
      for (;;) {
        const { stopping, changed } = await write(
          (tx) => change(tx, { tenant, named }, decide),
          callOf(tenant),
        )
        const stopped = stopping === null ? null : await finishStop(base, tenant, stopping)
        if (changed) return { ...changed, ...stopped }
      }
    },

    listUsers: ({ tenantId }, { after, limit }) =>
      look((tx) => tx.all(LIST, { tenant: tenantId, after: after ?? 0, limit })),

    findUser: ({ tenantId }, partnerUserId) =>
      read(function* (tx) {
        const named = { tenant: tenantId, partner_user_id: partnerUserId }
        const [user, consents, plans] = yield* tx.together(
          tx.get(ONE, named),
          tx.all(CONSENTS, named),
          tx.all(PLANS_OF, named),
        )
        return user ? { ...user, consents, plans } : null
      }),
  }
}

/**
 * `remember` keeps the erasure of a user outside the database, before it is committed. `overwrite` removes, as far as a
 * store can, the bytes of an erased e-mail that is in no other row (null for none), and returns where they may remain.
 */
function createEraser(
  { look, write }: Base,
  { overwrite, remember }: OwnErasing,
): Pick<UserStore, 'eraseUser' | 'eraseAgain'> {
  return {
    eraseUser: (tenant, partnerUserId, entry) => erase(tenant, partnerUserId, entry),

    async eraseAgain({ remembered, replaced }, entryOf) {
      if (remembered.size === 0 && replaced.length === 0) return 0
      let erased = 0
      for (const tenant of await look((tx) => tx.all(TENANTS))) {
        const hash = await hashesOf(tenant)
        const gone = replaced.filter(
          ({ partnerSlug, environment }) =>
            partnerSlug === tenant.partnerSlug && environment === tenant.environment,
        )
        for (let after = 0n; ; ) {
          const page = { tenant: tenant.tenantId, after, limit: USERS_PER_PAGE }
          const rows = await look((tx) => tx.all(WITH_DATA, page))
          for (const { partner_user_id: user, erased_at: erasedAt } of rows) {
            const listed = latest(hash(user).flatMap((sha256) => remembered.get(sha256) ?? []))
            const there = gone.flatMap((one) => (one.partnerUserId === user ? one.erasedAt : []))
            if (there.length === 0 && listed <= (instantOrNull(erasedAt) ?? NEVER)) continue
            const known = { remembered: listed, at: latest([listed, ...there]) }
            await erase(tenant, user, entryOf(user, tenant), known)
            erased += 1
          }
          const last = rows.at(-1)
          if (!last || rows.length < USERS_PER_PAGE) break
          after = last.user_id
        }
      }
      return erased
    },
  }

  /** One for each key of the tenant, since it is unknown which keys a copy has. */
  async function hashesOf(tenant: Tenant): Promise<(partnerUserId: string) => string[]> {
    const keys = await look((tx) => tx.all(KEYS, { tenant: tenant.tenantId }))
    return (user) => keys.map(({ key_sha256 }) => erasureHash(key_sha256, tenant, user))
  }

  async function erase(
    tenant: Tenant,
    partnerUserId: string,
    entry: AuditEntry,
    known?: { remembered: Instant; at: Instant },
  ): ReturnType<UserStore['eraseUser']> {
    const named = { tenant: tenant.tenantId, partner_user_id: partnerUserId }
    const hashes = (await hashesOf(tenant))(partnerUserId)
    const { before, now, at } = await write(function* (tx) {
      const [, row, times] = yield* tx.together(tx.lock(LOCK_USER, named), tx.get(USER, named), tx.times)
      if (!row) throw notFound('user', partnerUserId)
      const now = times.real
      // Dated after the last erasure, whatever the clock says.
      const at = latest([known?.at ?? now, plus(instantOrNull(row.erased_at) ?? NEVER, 1)])
      const of = { user_id: row.user_id }
      yield* tx.together(
        ...FORGET.map((statement) => tx.run(statement, of)),
        tx.run(ERASE, { ...of, at, now }),
        addAudit(tx, entry, now),
      )
      // Last: a database that refuses the erasure must not have it done by a later restore.
      const erasures = hashes.map((sha256) => ({ sha256, at }))
      yield* tx.when(at !== known?.remembered, () => remember(tx, erasures))
      return { before: userOf(row), now, at }
    }, ofTenant(tenant))
    const text = before.email
    // If another row has the same text, it stays on the disk in any case.
    const elsewhere = text !== null && (await look((tx) => tx.get(ELSEWHERE, { text }))) !== undefined
    const remains = await overwrite(elsewhere ? null : text)
    const user = { ...before, email: null, authProvider: null, updatedAt: now }
    return { user, erasedAt: at, remains: elsewhere ? 'other_row' : remains }
  }
}

/** A partner's reads of its own users. */
const createUserReader = ({ look, read }: Base): Pick<UserStore, 'readUser' | 'readUsers'> => ({
  readUsers: (tenant, { after, limit }) =>
    look((tx) => tx.all(PAGE, { tenant: tenant.tenantId, after: after ?? '', limit }), callOf(tenant)),

  readUser: (tenant, partnerUserId) =>
    read(function* (tx) {
      const named = { tenant: tenant.tenantId, partner_user_id: partnerUserId }
      const [row, consents] = yield* tx.together(
        tx.get(USER, named),
        tx.all(NEWEST_CONSENTS, { ...named, limit: CONSENTS_SHOWN }),
      )
      return row ? { ...userOf(row), consents: consents.reverse() } : null
    }, callOf(tenant)),
})

type StopCounts = { plansPaused: number; executionsCancelled: number }
type Changed = { stopping: bigint | null; changed: ({ user: User } & StopCounts) | null }

/** One transaction of a change. The rest of a disable under way, `stopping`, is finished before the answer. */
function* change(tx: WriteTx, whose: { tenant: Caller; named: Named }, decide: Decide): Steps<Changed> {
  const { tenant, named } = whose
  const [, row, times] = yield* tx.together(tx.lock(LOCK_USER, named), tx.get(USER, named), tx.times)
  const now = times.of(tenant.tenantId)
  const current = row ? userOf(row) : null
  const { user, stopsPlans } = decide(current, now)
  const isUnderWay =
    row?.status === 'disabled' && (yield* tx.get(OF_USER, { user_id: row.user_id })) !== undefined
  // Linked again only once all of the user's plans are stopped.
  if (isUnderWay && user.status === 'linked') return { stopping: row.user_id, changed: null }
  const userId = user === current ? row?.user_id : yield* put(tx, user, { row, named }, now)
  // Another transaction has just changed the user, so the decision is made again by its new state.
  if (userId === undefined) return yield* change(tx, whose, decide)
  const changed = { user, plansPaused: 0, executionsCancelled: 0 }
  if (!stopsPlans) return { stopping: null, changed }
  if (current?.status === 'disabled') return { stopping: isUnderWay ? userId : null, changed }
  const stopped = yield* beginStop(tx, tenant, userId, now)
  return { stopping: stopped ? null : userId, changed: { ...changed, ...stopped } }
}

/** Stores a user that was read as `row`. Undefined when another transaction has linked the user since. */
function* put(
  tx: Tx,
  user: User,
  { row, named }: { row: UserRow | undefined; named: Named },
  now: Instant,
): Steps<bigint | undefined> {
  const params = userParams(user, named.tenant, row)
  const userId = row?.user_id ?? (yield* tx.get(INSERT, params))
  if (userId === undefined) return undefined
  yield* tx.together(
    tx.when(row !== undefined, () => tx.run(UPDATE, params)),
    tx.run(KEEP_CONSENT, consentParams(user, userId, now)),
  )
  return userId
}

// Disables of users. However many plans its user has, a disable is in force from its first transaction on: the user is
// disabled in it, and so are the first plans. A user with more plans than one transaction should hold has the others
// stopped page by page, and until then nothing fires for the user and nothing of the user's tenant is delivered
// (docs/decisions/commits.md#a-disable-of-many-plans). A process that continues a stop, on whatever host, holds a lock
// on its user's row.

type StopRow = { user_id: bigint; plan_id: bigint; plans_paused: bigint; executions_cancelled: bigint }

const LOCK_STOPPED = query('select from users where user_id = :user_id for no key update')
const SELECT_PLANS = `from plans where user_id = :user_id and plan_id > :after order by plan_id limit :limit`
const PLANS = query(`select plan_id ${SELECT_PLANS}`, (row: { plan_id: bigint }) => Number(row.plan_id))
const LOCK_PLANS = query(`select ${SELECT_PLANS} for no key update`)
const PAUSE = query(
  ({ among }) =>
    `update plans set status = 'paused', updated_at = :now
     where ${among('plan_id', 'plan_ids')} and status = 'active'`,
)
const SLEEP = query(
  ({ among }) =>
    `update schedules set awake = 0 where ${among('plan_id', 'plan_ids')} and awake = 1 and ${AWAKE} = 0`,
)
const BEGIN = query(`${putInto('stops', { tenant_id: ':tenant', begun_at: ':now' })}, ended_at = null`)
const NOTE = query(
  `update stops set plan_id = :plan_id, plans_paused = plans_paused + :plans_paused,
     executions_cancelled = executions_cancelled + :executions_cancelled, ended_at = :ended_at
   where user_id = :user_id`,
)
/** A damaged row of a user who is not disabled stops no plans. */
const UNDER_WAY = `stops.ended_at is null and exists (
  select 1 from users u where u.user_id = stops.user_id and u.status = 'disabled')`
const OF_USER = query<StopRow>(`select * from stops where user_id = :user_id and ${UNDER_WAY}`)
const OF_TENANT = query<StopRow>(`select * from stops where tenant_id = :tenant and ${UNDER_WAY} limit 1`)
const COUNTS = query<StopRow>('select * from stops where user_id = :user_id')
/** The users whose plans are still being stopped. */
export const USERS_STOPPING = query(`select user_id from stops where ${UNDER_WAY}`, userIdOf)

/** In the transaction that disables a user and has locked its row. Null when `finishStop` has more to do. */
function* beginStop(tx: Tx, { tenantId }: Tenant, userId: bigint, now: Instant): Steps<StopCounts | null> {
  const { last, plansPaused, executionsCancelled } = yield* stopPage(tx, userId, 0, now)
  if (last === null) return { plansPaused, executionsCancelled }
  yield* tx.run(BEGIN, {
    user_id: userId,
    tenant: tenantId,
    plan_id: last,
    plans_paused: plansPaused,
    executions_cancelled: executionsCancelled,
    now,
  })
  return null
}

/** Plans that one transaction stops: ten milliseconds of work on SQLite, locked for as long on PostgreSQL. */
const PLANS_PER_PAGE = 250

/** Stops the plans that follow `after`. `last` is null when there are no more. */
function* stopPage(
  tx: Tx,
  userId: bigint,
  after: bigint | number,
  now: Instant,
): Steps<StopCounts & { last: number | null }> {
  const page = { user_id: userId, after, limit: PLANS_PER_PAGE }
  const [, planIds] = yield* tx.together(tx.lock(LOCK_PLANS, page), tx.all(PLANS, page))
  const plans = { plan_ids: planIds }
  const [, executionsCancelled, plansPaused] = yield* tx.together(
    lockSchedules(tx, planIds),
    cancelOpen(tx, planIds, now),
    tx.run(PAUSE, { ...plans, now }),
    tx.run(SLEEP, plans),
  )
  const last = planIds.length < PLANS_PER_PAGE ? null : (planIds.at(-1) ?? null)
  return { plansPaused, executionsCancelled, last }
}

/** Stops one more page of a user's plans, if the stop is still under way. */
function* goOn(tx: WriteTx, { tenantId }: Tenant, userId: bigint): Steps<boolean> {
  const user = { user_id: userId }
  const [times, , stop] = yield* tx.together(tx.times, tx.lock(LOCK_STOPPED, user), tx.get(OF_USER, user))
  if (!stop) return false
  const now = times.of(tenantId)
  const page = yield* stopPage(tx, userId, stop.plan_id, now)
  yield* tx.run(NOTE, {
    ...user,
    plan_id: page.last ?? stop.plan_id,
    plans_paused: page.plansPaused,
    executions_cancelled: page.executionsCancelled,
    ended_at: page.last === null ? now : null,
  })
  return true
}

/** Whether the plans of any of a tenant's users are still being stopped. */
export function* isAnyStopping(tx: Tx, { tenantId }: Tenant): Steps<boolean> {
  return (yield* tx.get(OF_TENANT, { tenant: tenantId })) !== undefined
}

/** Stops the rest of a user's plans, and returns the counts of the whole stop. The key was checked before. */
async function finishStop({ look, write }: Base, tenant: Tenant, userId: bigint): Promise<StopCounts> {
  const call = callOf({ tenantId: tenant.tenantId })
  while (await write((tx) => goOn(tx, tenant, userId), call));
  const counts = await look((tx) => tx.get(COUNTS, { user_id: userId }), call)
  return {
    plansPaused: Number(counts?.plans_paused ?? 0),
    executionsCancelled: Number(counts?.executions_cancelled ?? 0),
  }
}

/** Completes every disable in a tenant, including one whose process ended in the middle of it. */
export async function finishStops({ look, write }: Base, tenant: Tenant): Promise<void> {
  const call = callOf({ tenantId: tenant.tenantId })
  for (;;) {
    const stop = await look((tx) => tx.get(OF_TENANT, { tenant: tenant.tenantId }), call)
    if (!stop) return
    await write((tx) => goOn(tx, tenant, stop.user_id), call)
  }
}
