// Plans as partners change them on a file: a twin of ../postgres/plans.ts, because it is a call like any other.

import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Instant } from '../../core/time.ts'
import {
  type CloseReason,
  cellAfter,
  close,
  freshSchedule,
  type Opening,
  openCell,
  opened,
  reserve,
  type Schedule,
  unreserved,
  type Window,
} from '../../core/window.ts'
import { type UserRow, userOf } from '../rows/accounts.ts'
import {
  amountParams,
  closingParams,
  openingParams,
  type PlanRow,
  planOf,
  planParams,
  scheduleParams,
  type WindowRow,
  windowOf,
} from '../rows/ledger.ts'
import { cancelOpen, WINDOWS } from '../shared/ledger.ts'
import { finishStops, isAnyStopping, usersStopping } from '../shared/users.ts'
import {
  INSERT_PLAN,
  MIN_TRANCHE,
  PLAN_BY_NAME,
  SELECT_USER,
  UPDATE_PLAN,
  USED_BEFORE_RESET,
  USED_STARTS,
} from '../sql/fragments.ts'
import { instant, instantOrNull } from '../statement.ts'
import type { PlanStore } from '../store.ts'
import { type Driver, preparedAll } from './driver.ts'
import type { Connection, Database } from './file/connection.ts'
import { createRefuseWhenStill } from './seal.ts'
import type { TenantTime } from './tenant-time.ts'

export function createPlanWriter(
  connection: Connection,
  ledger: Ledger,
  time: TenantTime,
): Pick<PlanStore, 'changePlan'> {
  const sql = prepare(connection)
  const refuseWhenStill = createRefuseWhenStill(connection.db)
  return {
    changePlan: (tenant, ids, decide) =>
      time.write(tenant, (now) => {
        refuseWhenStill()
        const scope = { tenant: tenant.tenantId }
        const userRow = sql.user.get({ ...scope, partner_user_id: ids.partnerUserId })
        const names = { ...scope, partner_plan_id: ids.partnerPlanId }
        const planRow = sql.plan.get(names)
        const plan = planRow ? planOf(planRow) : null
        const before = tenant.environment === 'test' ? sql.usedBeforeReset.get(names) : null
        const change = decide(
          {
            user: userRow ? userOf(userRow) : null,
            plan,
            window: plan && ledger.current(plan.planId),
            usedStarts: plan ? sql.usedStarts.all({ plan_id: plan.planId, now }).map(instant) : [],
            usedBeforeReset: instantOrNull(before ?? null),
          },
          now,
        )
        if (change.plan === plan) return plan

        const userId = (planRow ?? userRow)?.user_id as bigint
        const params = planParams(change.plan, { tenantId: tenant.tenantId, userId })
        const planId = plan?.planId ?? Number(sql.insert.run(params).lastInsertRowid)
        if (plan) sql.update.run({ ...params, plan_id: planId })
        if (change.cancelsExecutions) ledger.cancelOpen([planId], now)
        if (change.close) ledger.closeCurrent(planId, change.close, now)
        if (change.open) ledger.open(planId, change.open, sql.minTranche.get(scope) as Usd)
        ledger.wake(planId)
        return change.plan
      }),
  }
}

function prepare({ db }: Connection) {
  return {
    user: db.prepare<object, UserRow>(SELECT_USER),
    plan: db.prepare<object, PlanRow>(PLAN_BY_NAME),
    usedStarts: db.prepare<object, bigint>(USED_STARTS).pluck(),
    usedBeforeReset: db.prepare<object, bigint | null>(USED_BEFORE_RESET).pluck(),
    minTranche: db.prepare<object, bigint>(MIN_TRANCHE).pluck(),
    insert: db.prepare(INSERT_PLAN),
    update: db.prepare(UPDATE_PLAN),
  }
}

// Windows and schedules as this store writes them by itself, by the statements of ../shared/ledger.ts: as steps, they
// would take a sixth more of a change of a plan.

export type Ledger = ReturnType<typeof createLedger>

export function createLedger(db: Database, { within }: Driver) {
  const sql = {
    ...preparedAll(db, WINDOWS),
    // In the order of the ids; the last are missing when any is.
    windows: db.prepare<object, WindowRow>(
      'select w.* from json_each(:windows) asked cross join windows w on w.window_id = asked.value',
    ),
    reserve: db.prepare<[bigint, number]>('update windows set reserved = ? where window_id = ?'),
  }

  const ledger = {
    /** A plan's current window, as it is stored. */
    current(planId: number): Window | null {
      const row = sql.current.get({ plan_id: planId })
      return row ? windowOf(row) : null
    },

    /** Stores a window's ledger and, while it is its plan's current one, what the schedule may still fire. */
    write(window: Window): void {
      const amounts = amountParams(window)
      if (window.closed) {
        sql.writeClosed.run({ ...amounts, ...closingParams(window.closed) })
        return
      }
      const { planId, windowId } = window
      sql.writeOpen.run(amounts)
      sql.refund.run({ fireable: unreserved(window), plan_id: planId, window_id: windowId })
    },

    /** Reserves amounts in current windows. The schedules that asked for them have already counted them. */
    reserve(amounts: readonly (readonly [windowId: number, amount: Usd])[]): void {
      const rows = sql.windows.all({ windows: JSON.stringify(amounts.map(([windowId]) => windowId)) })
      amounts.forEach(([windowId, amount], i) => {
        const row = rows[i]
        if (!row) throw new Error(`there is no window ${windowId}`)
        sql.reserve.run(reserve(windowOf(row), amount).reserved, windowId)
      })
    },

    /** The first cell from `cell` on that has money left, as a window to open: nearly always that very cell. */
    freeCell(planId: number, cell: Opening, floor: Usd): Opening {
      for (let next = cell; ; next = cellAfter(next)) {
        const use = sql.cell.get({ plan_id: planId, start: next.start, end: next.end })
        const usedStart = instantOrNull(use?.used ?? null)
        const found = openCell(next, { claimed: (use?.claimed ?? 0n) as Usd, usedStart }, floor)
        if (found) return found
      }
    },

    open(planId: number, opening: Opening, minTranche: Usd): Schedule {
      const { lastInsertRowid } = sql.open.run({ window_id: null, ...openingParams(planId, opening) })
      const window = opened(opening, { planId, windowId: Number(lastInsertRowid) })
      const schedule = freshSchedule(window, minTranche)
      sql.put.run(scheduleParams(schedule))
      return schedule
    },

    closeCurrent(planId: number, reason: CloseReason, now: Instant): void {
      const window = ledger.current(planId)
      if (window) ledger.write(close(window, now, reason))
      sql.dropSchedule.run({ plan_id: planId })
    },

    wake: (planId: number): unknown => sql.wake.run({ plan_id: planId }),
    cancelOpen: (planIds: readonly number[], now: Instant): number =>
      within((tx) => cancelOpen(tx, planIds, now)),
  }
  return ledger
}

/** Disables that are under way, for polls and passes. */
export const createStops = (driver: Driver) => ({
  isAnyStopping: (tenant: Tenant): boolean => driver.within((tx) => isAnyStopping(tx, tenant)),
  users: (): Set<bigint> => new Set(driver.within((tx) => usersStopping(tx)).map(({ user_id }) => user_id)),
  finishAll: (tenant: Tenant): Promise<void> => finishStops(driver, tenant),
})
export type Stops = ReturnType<typeof createStops>
