// Disables of users. Whatever its user's plans, a disable is in force from its first transaction on: the user is
// disabled in it, and so are the first plans. A user with more plans than one transaction should hold has the others
// stopped page by page, and until then nothing fires for the user and nothing of the user's tenant is handed out
// (docs/decisions/commits.md#a-disable-of-many-plans).

import type { Instant } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import { PLANS_PER_PAGE } from '../../disable-page-size.ts'
import { BEGIN_STOP, NOTE_STOP, UNDER_WAY } from '../../sql/disable-user.ts'
import { AWAKE } from '../../sql/may-fire.ts'
import type { Connection } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import type { Ledger } from './windows-and-schedules.ts'

export type StopCounts = { plansPaused: number; executionsCancelled: number }
export type Stops = ReturnType<typeof createStops>

type StopRow = { user_id: bigint; plan_id: bigint; plans_paused: bigint; executions_cancelled: bigint }

export function createStops({ db }: Connection, ledger: Ledger, time: TenantTime) {
  const sql = prepare(db)

  /** Stops the plans that follow `after`. `last` is null when there are no more. */
  function stopPage(userId: bigint, after: bigint, now: Instant): StopCounts & { last: bigint | null } {
    const planIds = sql.plans.all({ user_id: userId, after, limit: PLANS_PER_PAGE })
    const plans = JSON.stringify(planIds.map(Number))
    const executionsCancelled = ledger.cancelOpen(planIds, now)
    const plansPaused = sql.pause.run({ plans, now }).changes
    sql.sleep.run({ plans })
    const last = planIds.length < PLANS_PER_PAGE ? null : (planIds.at(-1) ?? null)
    return { plansPaused, executionsCancelled, last }
  }

  /** Does one more page of a stop. */
  function goOn(stop: StopRow, now: Instant): void {
    const page = stopPage(stop.user_id, stop.plan_id, now)
    sql.note.run({
      user_id: stop.user_id,
      plan_id: page.last ?? stop.plan_id,
      plans_paused: page.plansPaused,
      executions_cancelled: page.executionsCancelled,
      ended_at: page.last === null ? now : null,
    })
  }

  const stops = {
    /** In the transaction that disables a user. Returns null when there is more to do, which `finish` does. */
    begin({ tenantId }: Tenant, userId: bigint, now: Instant): StopCounts | null {
      const { last, plansPaused, executionsCancelled } = stopPage(userId, 0n, now)
      if (last === null) return { plansPaused, executionsCancelled }
      sql.begin.run({
        user_id: userId,
        tenant: tenantId,
        plan_id: last,
        plans_paused: plansPaused,
        executions_cancelled: executionsCancelled,
        now,
      })
      return null
    },

    /** Whether a user's plans are still being stopped. */
    isStopping: (userId: bigint): boolean => sql.ofUser.get({ user_id: userId }) !== undefined,

    /** Whether those of any of a tenant's users are. */
    isAnyStopping: (tenant: Tenant): boolean => sql.ofTenant.get({ tenant: tenant.tenantId }) !== undefined,

    /** Tells of each plan whether its user's plans are still being stopped. */
    ofPlans(): (planId: number) => boolean {
      const users = new Set(sql.users.all())
      if (users.size === 0) return () => false
      return (planId) => users.has(sql.userOfPlan.get(planId) ?? 0n)
    },

    /** Stops the rest of a user's plans, and returns what the whole stop came to. */
    async finish(tenant: Tenant, userId: bigint): Promise<StopCounts> {
      for (;;) {
        const counts = await time.write(tenant, (now) => {
          const stop = sql.ofUser.get({ user_id: userId })
          if (stop) goOn(stop, now)
          return stop ? null : sql.counts.get({ user_id: userId })
        })
        if (counts === undefined) return { plansPaused: 0, executionsCancelled: 0 }
        if (counts) {
          return {
            plansPaused: Number(counts.plans_paused),
            executionsCancelled: Number(counts.executions_cancelled),
          }
        }
      }
    },

    /** Completes every disable in a tenant, including one whose process ended in the middle of it. */
    async finishAll(tenant: Tenant): Promise<void> {
      const goOnWithAny = (now: Instant): boolean => {
        const stop = sql.ofTenant.get({ tenant: tenant.tenantId })
        if (stop) goOn(stop, now)
        return stop !== undefined
      }
      while (await time.write(tenant, goOnWithAny));
    },
  }
  return stops
}

function prepare(db: Connection['db']) {
  return {
    plans: db
      .prepare<object, bigint>(
        'select plan_id from plans where user_id = :user_id and plan_id > :after order by plan_id limit :limit',
      )
      .pluck(),
    pause: db.prepare(
      `update plans set status = 'paused', updated_at = :now
       where plan_id in (select value from json_each(:plans)) and status = 'active'`,
    ),
    sleep: db.prepare(
      `update schedules set awake = 0
       where plan_id in (select value from json_each(:plans)) and awake = 1 and not ${AWAKE}`,
    ),
    begin: db.prepare(BEGIN_STOP),
    note: db.prepare(NOTE_STOP),
    ofUser: db.prepare<object, StopRow>(`select * from stops where user_id = :user_id and ${UNDER_WAY}`),
    ofTenant: db.prepare<object, StopRow>(
      `select * from stops where tenant_id = :tenant and ${UNDER_WAY} limit 1`,
    ),
    counts: db.prepare<object, StopRow>('select * from stops where user_id = :user_id'),
    users: db.prepare<[], bigint>(`select user_id from stops where ${UNDER_WAY}`).pluck(),
    userOfPlan: db.prepare<[number], bigint>('select user_id from plans where plan_id = ?').pluck(),
  }
}
