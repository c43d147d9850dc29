// The users of a tenant.

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
import type { UserStore } from '../../users.ts'
import type { Connection } from '../file/connection.ts'
import type { StopCounts, Stops } from '../ledger/disable-user.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import type { AuditLog } from './audit.ts'
import { createEraser } from './erase-user.ts'

type Decide = Parameters<UserStore['changeUser']>[2]
type Step = { stopping: bigint | null; changed: ({ user: User } & StopCounts) | null }
type Parts = { stops: Stops; audit: AuditLog; time: TenantTime; file: string; held: () => number }

export function createUserStore(connection: Connection, parts: Parts): UserStore {
  const { db, read } = connection
  const { stops, audit, time, file, held } = parts
  const sql = {
    find: db.prepare<object, UserRow>(SELECT_USER),
    list: db.prepare<object, ListedUserRow>(LISTED_USERS),
    put: db.prepare(
      `insert into users (tenant_id, partner_user_id, email, auth_provider, consent_version, consent_timestamp,
         status, created_at, updated_at, digest)
       values (:tenant_id, :partner_user_id, :email, :auth_provider, :consent_version, :consent_timestamp,
         :status, :created_at, :updated_at, :digest)
       on conflict (tenant_id, partner_user_id) do update set email = :email, auth_provider = :auth_provider,
         consent_version = :consent_version, consent_timestamp = :consent_timestamp, status = :status,
         updated_at = :updated_at, digest = :digest
       returning user_id`,
    ),
    keepConsent: db.prepare(KEEP_CONSENT),
    one: db.prepare<object, ListedUserRow>(LISTED_USER),
    consents: db.prepare<[bigint], ConsentRow>(
      'select * from consents where user_id = ? order by received_at, consent_id',
    ),
    plansOf: db.prepare<[bigint], PlanRow>(
      `select p.*, u.partner_user_id from plans p join users u using (user_id) where p.user_id = ? order by p.plan_id`,
    ),
  }

  /** One transaction of a change. What is left of a disable under way, `stopping`, is finished before the answer. */
  function change(tenant: Tenant, partnerUserId: string, decide: Decide, now: Instant): Step {
    const scope = { tenant: tenant.tenantId, partner_user_id: partnerUserId }
    const row = sql.find.get(scope)
    const seen = row ? userOf(row) : null
    const { user, stopsPlans } = decide(seen, now)
    const stopping = row && stops.isStopping(row.user_id) ? row.user_id : null
    // Linked again only when all of the user's plans are stopped.
    if (stopping !== null && user.status === 'linked') return { stopping, changed: null }
    if (user !== seen) put(user, { tenant, row }, now)
    const changed = { user, plansPaused: 0, executionsCancelled: 0 }
    if (!stopsPlans || (stopping === null && seen?.status === 'disabled')) return { stopping: null, changed }
    if (stopping !== null) return { stopping, changed }
    const { user_id } = sql.find.get(scope) as UserRow
    const stopped = stops.begin(tenant, user_id, now)
    return { stopping: stopped ? null : user_id, changed: { ...changed, ...stopped } }
  }

  function put(
    user: User,
    { tenant, row }: { tenant: Tenant; row: UserRow | undefined },
    now: Instant,
  ): void {
    const { user_id } = sql.put.get(userParams(user, tenant.tenantId, row)) as { user_id: bigint }
    sql.keepConsent.run(consentParams(user, user_id, now))
  }

  return {
    async changeUser(tenant, partnerUserId, decide) {
      for (;;) {
        const { stopping, changed } = await time.write(tenant, (now) =>
          change(tenant, partnerUserId, decide, now),
        )
        const stopped = stopping === null ? null : await stops.finish(tenant, stopping)
        if (changed) return { ...changed, ...stopped }
      }
    },

    listUsers: (tenant, { after, limit }) =>
      read(() => sql.list.all({ tenant: tenant.tenantId, after: after ?? 0, limit }).map(listedUserOf)),

    findUser: (tenant, partnerUserId) =>
      read(() => {
        const row = sql.one.get({ tenant: tenant.tenantId, partner_user_id: partnerUserId })
        if (!row) return null
        return {
          ...listedUserOf(row),
          consents: sql.consents.all(row.user_id).map(consentOf),
          plans: sql.plansOf.all(row.user_id).map(planOf),
        }
      }),

    eraseUser: createEraser(connection, { audit, file, held }),
  }
}
