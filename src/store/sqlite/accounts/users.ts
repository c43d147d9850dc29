import { type UserRow, userOf } from '../../rows.ts'
import type { UserStore } from '../../store.ts'
import type { Connection } from '../file/connection.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'

export function createUserStore({ db }: Connection, ledger: Ledger, time: TenantTime): UserStore {
  const sql = {
    find: db.prepare<object, UserRow>(
      'select * from users where tenant_id = :tenant and partner_user_id = :partner_user_id',
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
        const { user_id } = sql.put.get({
          ...scope,
          email: user.email,
          auth_provider: user.authProvider,
          consent_version: user.consentVersion,
          consent_timestamp: user.consentTimestamp,
          status: user.status,
          created_at: user.createdAt,
          updated_at: user.updatedAt,
        }) as { user_id: bigint }
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
  }
}
