// Test environments: their clocks moved on, a tranche fired by hand, everything wiped.

import {
  advanceUnderWay,
  asleep,
  notToWipe,
  refuseLive,
  refuseTooFar,
  type Tenant,
} from '../../core/partner.ts'
import { notFound } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import { tenantById } from '../shared/accounts.ts'
import { addAudit } from '../shared/audit.ts'
import { EXPIRED_LEASES, KEEP_USED_STARTS, OPEN_SANDBOX, PLANS_OF_TENANT, WIPED } from '../sql/sandboxes.ts'
import { type Sandbox, type SandboxStore, type Wiped, wipedOf } from '../store.ts'
import { ofTenant } from '../transaction.ts'
import { within } from './driver.ts'
import { findNextStop, listSandboxDue, writeWakeUps } from './pass.ts'
import { runPage } from './plan-page.ts'
import { type Connection, onceMore, takeSessionLock } from './server/connection.ts'
import { LOCK } from './server/locks.ts'
import type { Tx } from './server/pipeline.ts'
import { query } from './server/statement.ts'
import { sandboxTimes, timeOf } from './tenant-time.ts'

const OPEN = query(OPEN_SANDBOX)
const MOVE = query('update sandboxes set offset_ms = offset_ms + :by where tenant_id = :tenant')
const PLAN = query<{ plan_id: bigint }>(
  'select plan_id from plans where tenant_id = :tenant and partner_plan_id = :id',
)
// Below zero: passes of the scheduler count up from one.
const WAKE_UP_ID = query<{ id: bigint }>(
  'select least(0, coalesce(min(tick_id), 0)) - 1 as id from webhook_events',
)
const PLANS = query<{ plans: bigint }>(PLANS_OF_TENANT)
const EXPIRED = query<{ count: bigint }>(EXPIRED_LEASES)

/**
 * Gives the tenant a clock of its own. For a live tenant the table refuses that, and so does this function, with a
 * message.
 */
async function open(tx: Tx, tenant: Tenant, real: Instant): Promise<Sandbox> {
  refuseLive(tenant)
  const [, all] = await Promise.all([tx.run(OPEN, { tenant: tenant.tenantId }), sandboxTimes(tx, real)])
  const own = all.find(({ tenantId }) => tenantId === tenant.tenantId)
  if (!own) throw new Error(`tenant ${tenant.tenantId} has no sandbox`)
  return { tenant, offsetMs: own.offsetMs, now: own.now }
}

const nextWakeUpId = async (tx: Tx): Promise<number> => Number((await tx.get(WAKE_UP_ID))?.id)

export function createSandboxStore(connection: Connection): SandboxStore {
  const { clock, look, read, write } = connection

  return {
    listSandboxes: () =>
      read(async (tx) => {
        const moved = (await sandboxTimes(tx, await clock.now(tx))).filter(({ offsetMs }) => offsetMs > 0)
        const tenants = await Promise.all(
          moved.map(({ tenantId }) => within(tx, (steps) => tenantById(steps, tenantId))),
        )
        return moved.flatMap(({ offsetMs, now }, i) => {
          const tenant = tenants[i]
          return tenant ? [{ tenant, offsetMs, now }] : []
        })
      }),

    async beginAdvance(tenant, byMs, entry) {
      const end = await takeSessionLock(connection, LOCK.advance)
      if (!end) throw advanceUnderWay()
      try {
        return await write(async (tx) => {
          const { real } = await tx.times
          const sandbox = await open(tx, tenant, real)
          refuseTooFar(sandbox, byMs)
          const [wakeUpId, counted] = await Promise.all([
            nextWakeUpId(tx),
            tx.get(PLANS, { tenant: tenant.tenantId }),
            within(tx, (steps) => addAudit(steps, entry, real)),
          ])
          return { sandbox, plans: Number(counted?.plans), wakeUpId, end }
        }, ofTenant(tenant))
      } catch (error) {
        await end()
        throw error
      }
    },

    findNextStop: (tenant, search) => findNextStop(connection, tenant, search),
    listSandboxDue: (tenant, due) => listSandboxDue(connection, tenant, due),

    async moveSandbox(tenant, byMs, { wakeUpId, planIds, decisions }) {
      refuseLive(tenant)
      return onceMore(() =>
        write(
          async (tx) => {
            const { real } = await tx.times
            // The gate has read the tenant's time as it was before.
            const [, now] = await Promise.all([
              tx.run(MOVE, { tenant: tenant.tenantId, by: byMs }),
              timeOf(tx, tenant.tenantId, real),
            ])
            const { fired, written, ...counts } = await runPage(tx, planIds, decisions, {
              real,
              of: () => now,
            })
            await writeWakeUps(tx, wakeUpId, fired, real)
            return counts
          },
          { ...ofTenant(tenant), alone: 'tenants' },
        ),
      )
    },

    countExpiredLeases: (tenant, from, to) =>
      look(async (tx) => Number((await tx.get(EXPIRED, { tenant: tenant.tenantId, from, to }))?.count)),

    fireInSandbox: (tenant, partnerPlanId, decisions, entry) =>
      onceMore(() =>
        write(async (tx) => {
          const { real } = await tx.times
          const { now } = await open(tx, tenant, real)
          const plan = await tx.get(PLAN, { tenant: tenant.tenantId, id: partnerPlanId })
          if (!plan) throw notFound('plan', partnerPlanId)
          const { fired } = await runPage(tx, [Number(plan.plan_id)], decisions, { real, of: () => now })
          const [first] = fired
          if (!first) throw asleep(partnerPlanId)
          const wakeUpId = await nextWakeUpId(tx)
          await Promise.all([
            writeWakeUps(tx, wakeUpId, fired, real),
            within(tx, (steps) => addAudit(steps, entry, real)),
          ])
          return { fired: first, wakeUpId }
        }, ofTenant(tenant)),
      ),

    async resetSandbox(tenant, entry) {
      refuseLive(tenant)
      return write(
        async (tx) => {
          const { real } = await tx.times
          await open(tx, tenant, real)
          const wiped = await wipe(tx, tenant, real)
          await within(tx, (steps) => addAudit(steps, entry, real))
          return wiped
        },
        { ...ofTenant(tenant), alone: 'tenants' },
      )
    },
  }
}

// Wiping a test environment, while nobody else writes for it.

const MARK = query('update sandboxes set resetting = :resetting where tenant_id = :tenant')
const KEEP = KEEP_USED_STARTS.map((statement) => query(statement))
const WIPE = WIPED.map(([table, rows]) => ({ table, all: query(`delete from ${table} where ${rows}`) }))

/**
 * In a transaction that has the tenant to itself. Records that are otherwise kept forever can be deleted while the
 * tenant is marked.
 */
async function wipe(tx: Tx, { tenantId: tenant }: Tenant, real: Instant): Promise<Wiped> {
  if ((await tx.run(MARK, { tenant, resetting: 1 })) !== 1) {
    throw notToWipe()
  }
  for (const statement of KEEP) await tx.run(statement, { tenant, real })
  const counts = await Promise.all(
    WIPE.map(async ({ table, all }) => [table, await tx.run(all, { tenant })] as const),
  )
  await tx.run(MARK, { tenant, resetting: 0 })
  const gone = new Map(counts)
  return wipedOf((table) => gone.get(table) ?? 0)
}
