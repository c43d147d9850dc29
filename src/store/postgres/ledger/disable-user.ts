// Disables of users. Whatever its user's plans, a disable is in force from its first transaction on: the user is
// disabled in it, and so are the first plans. A user with more plans than one transaction should hold has the others
// stopped page by page, and until then nothing fires for the user and nothing of the user's tenant is handed out
// (docs/decisions/commits.md#a-disable-of-many-plans). A process that goes on with a stop, on whatever host, holds a
// lock on its user's row.

import type { Instant } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import { PLANS_PER_PAGE } from '../../disable-page-size.ts'
import { BEGIN_STOP, NOTE_STOP, UNDER_WAY } from '../../sql/disable-user.ts'
import { AWAKE } from '../../sql/may-fire.ts'
import { callOf } from '../../transaction.ts'
import { writeAs } from '../sandbox/tenant-time.ts'
import type { Connection } from '../server/connection.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { cancelOpen } from './cancel-open.ts'
import { lockSchedules } from './row-locks.ts'

export type StopCounts = { plansPaused: number; executionsCancelled: number }
export type Stops = ReturnType<typeof createStops>

type StopRow = { user_id: bigint; plan_id: bigint; plans_paused: bigint; executions_cancelled: bigint }

const LOCK_USER = query('select from users where user_id = :user_id for no key update')
const LOCK_PLANS = query<{ plan_id: bigint }>(
  `select plan_id from plans where user_id = :user_id and plan_id > :after order by plan_id limit :limit
   for no key update`,
)
const PAUSE = query(
  `update plans set status = 'paused', updated_at = :now
   where plan_id = any(:plan_ids::bigint[]) and status = 'active'`,
)
const SLEEP = query(
  `update schedules set awake = 0 where plan_id = any(:plan_ids::bigint[]) and awake = 1 and ${AWAKE} = 0`,
)
const BEGIN = query(BEGIN_STOP)
const NOTE = query(NOTE_STOP)
const OF_USER = query<StopRow>(`select * from stops where user_id = :user_id and ${UNDER_WAY}`)
const OF_TENANT = query<StopRow>(`select * from stops where tenant_id = :tenant and ${UNDER_WAY} limit 1`)
const COUNTS = query<StopRow>('select * from stops where user_id = :user_id')
const USERS = query<{ user_id: bigint }>(`select user_id from stops where ${UNDER_WAY}`)

/** Stops the plans that follow `after`. `last` is null when there are no more. */
async function stopPage(
  tx: Tx,
  userId: bigint,
  after: bigint,
  now: Instant,
): Promise<StopCounts & { last: bigint | null }> {
  const rows = await tx.all(LOCK_PLANS, { user_id: userId, after, limit: PLANS_PER_PAGE })
  const planIds = rows.map(({ plan_id }) => Number(plan_id))
  const plans = { plan_ids: planIds }
  const [, executionsCancelled, plansPaused] = await Promise.all([
    lockSchedules(tx, planIds),
    cancelOpen(tx, planIds, now),
    tx.run(PAUSE, { ...plans, now }),
    tx.run(SLEEP, plans),
  ])
  const last = rows.length < PLANS_PER_PAGE ? null : (rows.at(-1)?.plan_id ?? null)
  return { plansPaused, executionsCancelled, last }
}

/** Does one more page of a user's stop, if the stop is still under way. */
async function goOn(tx: Tx, userId: bigint, now: Instant): Promise<boolean> {
  const user = { user_id: userId }
  const [, stop] = await Promise.all([tx.run(LOCK_USER, user), tx.get(OF_USER, user)])
  if (!stop) return false
  const page = await stopPage(tx, userId, stop.plan_id, now)
  await tx.run(NOTE, {
    ...user,
    plan_id: page.last ?? stop.plan_id,
    plans_paused: page.plansPaused,
    executions_cancelled: page.executionsCancelled,
    ended_at: page.last === null ? now : null,
  })
  return true
}

export function createStops(connection: Connection) {
  return {
    /**
     * In the transaction that disables a user and has locked its row. Returns null when there is more to do, which
     * `finish` does.
     */
    async begin(tx: Tx, { tenantId }: Tenant, userId: bigint, now: Instant): Promise<StopCounts | null> {
      const { last, plansPaused, executionsCancelled } = await stopPage(tx, userId, 0n, now)
      if (last === null) return { plansPaused, executionsCancelled }
      await tx.run(BEGIN, {
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
    isStopping: async (tx: Tx, userId: bigint): Promise<boolean> =>
      (await tx.get(OF_USER, { user_id: userId })) !== undefined,

    /** Whether those of any of a tenant's users are. */
    isAnyStopping: async (tx: Tx, { tenantId }: Tenant): Promise<boolean> =>
      (await tx.get(OF_TENANT, { tenant: tenantId })) !== undefined,

    /** The users whose plans are still being stopped. */
    usersStopping: async (tx: Tx): Promise<Set<bigint>> =>
      new Set((await tx.all(USERS)).map(({ user_id }) => user_id)),

    /** Stops the rest of a user's plans, and returns what the whole stop came to. */
    async finish(tenant: Tenant, userId: bigint): Promise<StopCounts> {
      while (await writeAs(connection, tenant, (tx, now) => goOn(tx, userId, now)));
      const counts = await connection.look((tx) => tx.get(COUNTS, { user_id: userId }), callOf(tenant))
      return {
        plansPaused: Number(counts?.plans_paused ?? 0),
        executionsCancelled: Number(counts?.executions_cancelled ?? 0),
      }
    },

    /** Completes every disable in a tenant, including one whose process ended in the middle of it. */
    async finishAll(tenant: Tenant): Promise<void> {
      for (;;) {
        const stop = await connection.look(
          (tx) => tx.get(OF_TENANT, { tenant: tenant.tenantId }),
          callOf(tenant),
        )
        if (!stop) return
        await writeAs(connection, tenant, (tx, now) => goOn(tx, stop.user_id, now))
      }
    },
  }
}
