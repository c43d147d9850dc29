// The users of a tenant.

import { instant, instantOrNull } from '../../rows/instant.ts'
import { type PlanRow, planOf } from '../../rows/plan.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type UserRow, userOf, userParams } from '../../rows/user.ts'
import type { Consent, UserStore } from '../../users.ts'
import { SELECT_USER } from '../expressions.ts'
import type { Connection } from '../file/connection.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import type { AuditLog } from './audit.ts'
import { createEraser } from './erase-user.ts'

type Parts = { ledger: Ledger; audit: AuditLog; time: TenantTime; file: string }

export function createUserStore(connection: Connection, parts: Parts): UserStore {
  const { db, read } = connection
  const { ledger, audit, time, file } = parts
  const sql = {
    find: db.prepare<object, UserRow>(SELECT_USER),
    list: db.prepare<object, UserRow & TenantRow>(
      `select u.*, t.partner_slug, t.environment from users u join tenants t using (tenant_id)
       where u.tenant_id = :tenant and u.user_id > :after order by u.user_id limit :limit`,
    ),
    put: db.prepare(
      `insert into users (tenant_id, partner_user_id, email, auth_provider, consent_version, consent_timestamp,
         status, created_at, updated_at)
       values (:tenant, :partner_user_id, :email, :auth_provider, :consent_version, :consent_timestamp,
         :status, :created_at, :updated_at)
       on conflict (tenant_id, partner_user_id) do update set email = :email, auth_provider = :auth_provider,
         consent_version = :consent_version, consent_timestamp = :consent_timestamp, status = :status,
         updated_at = :updated_at
       returning user_id`,
    ),
    keepConsent: db.prepare(
      `insert into consents (user_id, consent_version, consent_timestamp, received_at)
       values (:user_id, :consent_version, :consent_timestamp, :received_at) on conflict do nothing`,
    ),
    one: db.prepare<object, UserRow & TenantRow>(
      `select u.*, t.partner_slug, t.environment from users u join tenants t using (tenant_id)
       where u.tenant_id = :tenant and u.partner_user_id = :partner_user_id`,
    ),
    consents: db.prepare<[bigint], ConsentRow>(
      'select * from consents where user_id = ? order by received_at, consent_id',
    ),
    plansOf: db.prepare<[bigint], PlanRow>(
      `select p.*, u.partner_user_id from plans p join users u using (user_id) where p.user_id = ? order by p.plan_id`,
    ),
    plans: db.prepare('select plan_id from plans where tenant_id = :tenant and user_id = :user_id').pluck(),
    pause: db.prepare(
      `update plans set status = 'paused', updated_at = :now
       where plan_id = :plan_id and tenant_id = :tenant and status = 'active'`,
    ),
  }

  return {
    changeUser: (tenant, partnerUserId, decide) =>
      time.write(tenant, (now) => {
        const scope = { tenant: tenant.tenantId, partner_user_id: partnerUserId }
        const row = sql.find.get(scope)
        const { user, stopsPlans } = decide(row ? userOf(row) : null, now)
        const { user_id } = sql.put.get({ ...userParams(user), ...scope }) as { user_id: bigint }
        sql.keepConsent.run({
          user_id,
          consent_version: user.consentVersion,
          consent_timestamp: user.consentTimestamp,
          received_at: now,
        })
        let plansPaused = 0
        let executionsCancelled = 0
        if (stopsPlans) {
          for (const planId of sql.plans.all({ tenant: tenant.tenantId, user_id }).map(Number)) {
            executionsCancelled += ledger.cancelOpen(planId, now)
            plansPaused += sql.pause.run({ plan_id: planId, tenant: tenant.tenantId, now }).changes
            ledger.wake(planId)
          }
        }
        return { user, plansPaused, executionsCancelled }
      }),

    listUsers: (tenant, { after, limit }) =>
      read(() => sql.list.all({ tenant: tenant.tenantId, after: after ?? 0, limit }).map(listedUser)),

    findUser: (tenant, partnerUserId) =>
      read(() => {
        const row = sql.one.get({ tenant: tenant.tenantId, partner_user_id: partnerUserId })
        if (!row) return null
        return {
          ...listedUser(row),
          consents: sql.consents.all(row.user_id).map(consentOf),
          plans: sql.plansOf.all(row.user_id).map(planOf),
        }
      }),

    eraseUser: createEraser(connection, { audit, file }),
  }
}

type ConsentRow = { consent_version: string; consent_timestamp: bigint; received_at: bigint }
const consentOf = (row: ConsentRow): Consent => ({
  version: row.consent_version,
  timestamp: instant(row.consent_timestamp),
  receivedAt: instant(row.received_at),
})

const listedUser = (row: UserRow & TenantRow) => ({
  ...userOf(row),
  tenant: tenantOf(row),
  erasedAt: instantOrNull(row.erased_at),
  cursor: Number(row.user_id),
})
