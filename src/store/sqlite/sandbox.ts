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
import {
  EXPIRED_LEASES,
  KEEP_USED_STARTS,
  OPEN_SANDBOX,
  PLANS_OF_TENANT,
  WIPED as ROWS,
} from '../sql/sandboxes.ts'
import { type Sandbox, type SandboxStore, type Wiped, wipedOf } from '../store.ts'
import type { Driver } from './driver.ts'
import { type Connection, whenFree } from './file/connection.ts'
import { lockFile } from './file/files.ts'
import { acquireLock } from './file/locks.ts'
import type { SandboxDue, WriteWakeUps } from './pass.ts'
import type { RunPage } from './plan-page.ts'
import type { TenantTime } from './tenant-time.ts'

type Parts = {
  time: TenantTime
  due: SandboxDue
  within: Driver['within']
  runPage: RunPage
  writeWakeUps: WriteWakeUps
  file: string
}

export function createSandboxStore(connection: Connection, parts: Parts): SandboxStore {
  const { clock, read, write } = connection
  const { time, due, within, runPage, writeWakeUps, file } = parts
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
          within((tx) => addAudit(tx, entry, real))
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
        if (planId === undefined) throw notFound('plan', partnerPlanId)
        const { fired } = runPage([Number(planId)], decisions, real)
        const [first] = fired
        if (!first) throw asleep(partnerPlanId)
        const wakeUpId = Number(sql.wakeUpId.get())
        writeWakeUps(wakeUpId, fired, real)
        within((tx) => addAudit(tx, entry, real))
        return { fired: first, wakeUpId }
      }),

    resetSandbox: async (tenant, entry) => {
      await write((real) => open(tenant, real))
      return wipe(tenant.tenantId, (now) => within((tx) => addAudit(tx, entry, now)))
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

// Wiping a test environment.

/** The counts that are kept for a tenant go as well. */
export const WIPED: typeof ROWS = [
  ...ROWS,
  ['outcomes', 'tenant_id = :tenant'],
  ['open_counts', 'tenant_id = :tenant'],
]

type Wipe = (tenantId: number, note: (now: Instant) => void) => Promise<Wiped>

function createWipe({ db, clock, lookAtName, lookAtSchema }: Connection): Wipe {
  const sql = {
    begin: db.prepare('begin immediate'),
    commit: db.prepare('commit'),
    rollback: db.prepare('rollback'),
    mark: db.prepare('update sandboxes set resetting = :resetting where tenant_id = :tenant'),
    keep: KEEP_USED_STARTS.map((statement) => db.prepare(statement)),
    wipe: WIPED.map(([table, rows]) => ({
      table,
      statement: db.prepare(`delete from ${table} where ${rows}`),
    })),
  }

  function wipe(tenant: number, note: (now: Instant) => void): Wiped {
    if (sql.mark.run({ tenant, resetting: 1 }).changes !== 1) {
      throw notToWipe()
    }
    // No purchase in it is dated later.
    const real = clock()
    for (const statement of sql.keep) statement.run({ tenant, real })
    const gone = new Map(
      sql.wipe.map(({ table, statement }) => [table, statement.run({ tenant }).changes] as const),
    )
    sql.mark.run({ tenant, resetting: 0 })
    note(clock())
    return wipedOf((table) => gone.get(table) ?? 0)
  }

  // Without a turn of the event loop in between, so that no other request's statement runs while foreign keys are off.
  // They are off because SQLite would search everybody's executions and trades, including live ones, for each row that
  // goes. A test over the schema proves that the list above leaves nothing dangling.
  return (tenantId, note) =>
    whenFree(() => {
      db.pragma('foreign_keys = off')
      try {
        sql.begin.run()
        lookAtSchema()
        const wiped = wipe(tenantId, note)
        sql.commit.run()
        lookAtName()
        return wiped
      } finally {
        if (db.inTransaction) sql.rollback.run()
        db.pragma('foreign_keys = on')
      }
    })
}
