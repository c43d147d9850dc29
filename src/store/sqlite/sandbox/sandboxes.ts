// Test environments: their clocks moved on, a tranche fired by hand, everything wiped.

import type { Instant } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import { Problem } from '../../../core/problem.ts'
import { advanceUnderWay, asleep, refuseLive, refuseTooFar } from '../../../core/sandbox-limits.ts'
import type { Sandbox, SandboxStore } from '../../sandboxes.ts'
import { tenantById } from '../../shared/accounts.ts'
import { PLANS_OF_TENANT } from '../../sql/sandbox-due-plans.ts'
import { EXPIRED_LEASES, OPEN_SANDBOX } from '../../sql/sandboxes.ts'
import type { AuditLog } from '../accounts/audit.ts'
import type { Driver } from '../driver.ts'
import type { Connection } from '../file/connection.ts'
import { lockFile } from '../file/own-files.ts'
import { acquireLock } from '../file/process-lock.ts'
import type { RunPage } from '../pass/plan-page.ts'
import type { WriteWakeUps } from '../pass/wake-ups.ts'
import type { SandboxDue } from './due-plans.ts'
import { createWipe } from './reset.ts'
import type { TenantTime } from './tenant-time.ts'

type Parts = {
  time: TenantTime
  due: SandboxDue
  audit: AuditLog
  within: Driver['within']
  runPage: RunPage
  writeWakeUps: WriteWakeUps
  file: string
}

export function createSandboxStore(connection: Connection, parts: Parts): SandboxStore {
  const { clock, read, write } = connection
  const { time, due, audit, within, runPage, writeWakeUps, file } = parts
  const sql = prepare(connection)
  const wipe = createWipe(connection)

  /**
   * Gives the tenant a clock of its own. For a live tenant the table refuses that, and so does this function, with a
   * message.
   */
  function open(tenant: Tenant, real: Instant): Sandbox {
    refuseLive(tenant)
    sql.open.run({ tenant: tenant.tenantId })
    const own = time.sandboxes(real).find(({ tenantId }) => tenantId === tenant.tenantId)
    if (!own) throw new Error(`tenant ${tenant.tenantId} has no sandbox`)
    return { tenant, offsetMs: own.offsetMs, now: own.now }
  }

  return {
    listSandboxes: () =>
      read(() =>
        time.sandboxes(clock()).flatMap(({ tenantId, ...rest }) => {
          return rest.offsetMs > 0 ? [{ tenant: within((tx) => tenantById(tx, tenantId)), ...rest }] : []
        }),
      ),

    async beginAdvance(tenant, byMs, entry) {
      const end = acquireLock(lockFile(file, 'advance'))
      if (!end) throw advanceUnderWay()
      try {
        return await write((real) => {
          const sandbox = open(tenant, real)
          refuseTooFar(sandbox, byMs)
          audit.add(entry, real)
          const plans = Number(sql.plans.get({ tenant: tenant.tenantId }))
          return { sandbox, plans, wakeUpId: Number(sql.wakeUpId.get()), end: async () => end() }
        })
      } catch (error) {
        end()
        throw error
      }
    },

    findNextStop: due.nextStop,
    listSandboxDue: due.of,

    moveSandbox: (tenant, byMs, { wakeUpId, planIds, decisions }) =>
      write((real) => {
        refuseLive(tenant)
        sql.move.run({ tenant: tenant.tenantId, by: byMs })
        const { fired, ...counts } = runPage(planIds, decisions, real)
        writeWakeUps(wakeUpId, fired, real)
        return counts
      }),

    countExpiredLeases: (tenant, from, to) =>
      read(() => Number(sql.expired.get({ tenant: tenant.tenantId, from, to }))),

    fireInSandbox: (tenant, partnerPlanId, decisions, entry) =>
      write((real) => {
        open(tenant, real)
        const planId = sql.plan.get({ tenant: tenant.tenantId, id: partnerPlanId })
        if (planId === undefined) throw new Problem('plan_not_found', `Plan ${partnerPlanId} not found.`)
        const { fired } = runPage([Number(planId)], decisions, real)
        const [first] = fired
        if (!first) throw asleep(partnerPlanId)
        const wakeUpId = Number(sql.wakeUpId.get())
        writeWakeUps(wakeUpId, fired, real)
        audit.add(entry, real)
        return { fired: first, wakeUpId }
      }),

    resetSandbox: async (tenant, entry) => {
      await write((real) => open(tenant, real))
      return wipe(tenant.tenantId, (now) => audit.add(entry, now))
    },
  }
}

function prepare({ db }: Connection) {
  return {
    open: db.prepare(OPEN_SANDBOX),
    move: db.prepare('update sandboxes set offset_ms = offset_ms + :by where tenant_id = :tenant'),
    plan: db
      .prepare<object, bigint>(
        'select plan_id from plans where tenant_id = :tenant and partner_plan_id = :id',
      )
      .pluck(),
    // Below zero: passes of the scheduler count up from one.
    wakeUpId: db
      .prepare<[], bigint>('select min(0, coalesce(min(tick_id), 0)) - 1 from webhook_events')
      .pluck(),
    plans: db.prepare<object, bigint>(PLANS_OF_TENANT).pluck(),
    expired: db.prepare<object, bigint>(EXPIRED_LEASES).pluck(),
  }
}
