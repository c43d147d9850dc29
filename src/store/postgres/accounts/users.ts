// The users of a tenant. Every change of a user, its plans or its stop holds a lock on the user's row.

import type { Instant } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { User } from '../../../core/user.ts'
import { type PlanRow, planOf } from '../../rows/plan.ts'
import {
  type ConsentRow,
  consentOf,
  consentParams,
  type ListedUserRow,
  listedUserOf,
  type UserRow,
  userOf,
  userParams,
} from '../../rows/user.ts'
import { KEEP_CONSENT, LISTED_USER, LISTED_USERS, SELECT_USER } from '../../sql/accounts.ts'
import { callOf } from '../../transaction.ts'
import type { UserStore } from '../../users.ts'
import { createStops, type StopCounts } from '../ledger/disable-user.ts'
import type { Connection, WriteTx } from '../server/connection.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { createEraser } from './erase-user.ts'

type Decide = Parameters<UserStore['changeUser']>[2]
type Scope = { tenant: number; partner_user_id: string }
type Step = { stopping: bigint | null; changed: ({ user: User } & StopCounts) | null }

const LOCK = query<UserRow>(`${SELECT_USER} for no key update`)
const INSERT = query<{ user_id: bigint }>(
  `insert into users (tenant_id, partner_user_id, email, auth_provider, consent_version, consent_timestamp,
     status, created_at, updated_at, digest)
   values (:tenant_id, :partner_user_id, :email, :auth_provider, :consent_version, :consent_timestamp,
     :status, :created_at, :updated_at, :digest)
   on conflict do nothing returning user_id`,
)
const UPDATE = query(
  `update users set email = :email, auth_provider = :auth_provider, consent_version = :consent_version,
     consent_timestamp = :consent_timestamp, status = :status, updated_at = :updated_at,
     digest = :digest
   where tenant_id = :tenant_id and partner_user_id = :partner_user_id`,
)
const KEEP = query(KEEP_CONSENT)
const LIST = query<ListedUserRow>(LISTED_USERS)
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
  const userId = row?.user_id ?? (await tx.get(INSERT, params))?.user_id ?? null
  if (userId === null) return null
  await Promise.all([row && tx.run(UPDATE, params), tx.run(KEEP, consentParams(user, userId, now))])
  return userId
}

export function createUserStore(connection: Connection): UserStore {
  const stops = createStops(connection)

  /** One transaction of a change. What is left of a disable under way, `stopping`, is finished before the answer. */
  async function change(tx: WriteTx, tenant: Tenant, scope: Scope, decide: Decide): Promise<Step> {
    const [row, times] = await Promise.all([tx.get(LOCK, scope), tx.times])
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
      const rows = await connection.look((tx) => tx.all(LIST, { tenant: tenantId, after: after ?? 0, limit }))
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
