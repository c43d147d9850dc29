// Plans as partners change them on a file: a twin of ../postgres/plans.ts, because it is a call like any other.

import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Instant } from '../../core/time.ts'
import { type CloseReason, type Opening, reserve, type Schedule, type Window } from '../../core/window.ts'
import { intact } from '../digests.ts'
import { instant, instantOrNull } from '../reader.ts'
import { type UserRow, userOf } from '../rows/accounts.ts'
import { type PlanRow, planOf, planParams, type WindowRow, windowOf } from '../rows/ledger.ts'
import * as shared from '../shared/ledger.ts'
import { finishStops, isAnyStopping, usersStopping } from '../shared/users.ts'
import { SELECT_USER } from '../sql/accounts.ts'
import {
  INSERT_PLAN,
  MIN_TRANCHE,
  PLAN_BY_NAME,
  UPDATE_PLAN,
  USED_BEFORE_RESET,
  USED_STARTS,
} from '../sql/ledger.ts'
import type { PlanStore } from '../store.ts'
import type { Driver } from './driver.ts'
import type { Connection, Database } from './file/connection.ts'
import type { TenantTime } from './tenant-time.ts'

export function createPlanWriter(
  connection: Connection,
  ledger: Ledger,
  time: TenantTime,
): Pick<PlanStore, 'changePlan'> {
  const sql = prepare(connection)
  return {
    changePlan: (tenant, ids, decide) =>
      time.write(tenant, (now) => {
        const scope = { tenant: tenant.tenantId }
        const userRow = sql.user.get({ ...scope, partner_user_id: ids.partnerUserId })
        const names = { ...scope, partner_plan_id: ids.partnerPlanId }
        const planRow = sql.plan.get(names)
        const plan = planRow ? planOf(intact('plans', planRow)) : null
        const before = tenant.environment === 'test' ? sql.usedBeforeReset.get(names) : null
        const change = decide(
          {
            user: userRow ? userOf(intact('users', userRow)) : null,
            plan,
            window: plan && ledger.soundCurrent(plan.planId),
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

// The parts of the ledger that both stores share (../shared/ledger.ts), for the transactions that this store writes
// by itself, and what a page of a pass reserves at once.

export type Ledger = ReturnType<typeof createLedger>

export function createLedger(db: Database, { within }: Driver) {
  const sql = {
    // In the order of the ids; the last are missing when any is.
    windows: db.prepare<object, WindowRow>(
      'select w.* from json_each(:windows) asked cross join windows w on w.window_id = asked.value',
    ),
    reserve: db.prepare<[bigint, number]>('update windows set reserved = ? where window_id = ?'),
  }

  return {
    /** As it is stored, for a listing. */
    find: (windowId: number | bigint): Window | null => within((tx) => shared.findWindow(tx, windowId)),
    /** To be acted on. Throws DamagedRow. */
    sound: (windowId: number | bigint): Window | null => within((tx) => shared.soundWindow(tx, windowId)),
    /** As it is stored. */
    current: (planId: number): Window | null => within((tx) => shared.currentWindow(tx, planId)),
    /** To be acted on. Throws DamagedRow. */
    soundCurrent: (planId: number): Window | null => within((tx) => shared.soundCurrent(tx, planId)),
    write: (window: Window): unknown => within((tx) => shared.writeWindow(tx, window)),

    /** Reserves amounts in current windows. The schedules that asked for them have already counted them. */
    reserve(amounts: readonly (readonly [windowId: number, amount: Usd])[]): void {
      const seen = sql.windows.all({ windows: JSON.stringify(amounts.map(([windowId]) => windowId)) })
      amounts.forEach(([windowId, amount], i) => {
        const row = seen[i]
        if (!row) throw new Error(`there is no window ${windowId}`)
        sql.reserve.run(reserve(windowOf(intact('windows', row)), amount).reserved, windowId)
      })
    },

    freeSlot: (planId: number, slot: Opening, floor: Usd): Opening =>
      within((tx) => shared.freeSlot(tx, planId, slot, floor)),
    open: (planId: number, opening: Opening, minTranche: Usd): Schedule =>
      within(function* (tx) {
        const windowId = yield* tx.nextId('windows')
        return yield* shared.openWindow(tx, { planId, windowId, opening, minTranche })
      }),
    closeCurrent: (planId: number, reason: CloseReason, now: Instant): unknown =>
      within((tx) => shared.closeCurrent(tx, planId, { reason, now })),
    wake: (planId: number): unknown => within((tx) => shared.wake(tx, [planId])),
    cancelOpen: (planIds: readonly number[], now: Instant): number =>
      within((tx) => shared.cancelOpen(tx, planIds, now)),
  }
}

/** Disables that are under way, for polls and passes. */
export const createStops = (driver: Driver) => ({
  isAnyStopping: (tenant: Tenant): boolean => driver.within((tx) => isAnyStopping(tx, tenant)),
  users: (): Set<bigint> => new Set(driver.within((tx) => usersStopping(tx)).map(({ user_id }) => user_id)),
  finishAll: (tenant: Tenant): Promise<void> => finishStops(driver, tenant),
})
export type Stops = ReturnType<typeof createStops>
