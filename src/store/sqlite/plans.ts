// Plans: written by partners, listed for operators.

import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { PlanState } from '../../core/plan.ts'
import type { Instant } from '../../core/time.ts'
import {
  type CloseReason,
  leastInstruction,
  type Opening,
  reserve,
  type Schedule,
  slotDue,
  type Window,
} from '../../core/window.ts'
import { intact } from '../digests.ts'
import { instant, instantOrNull } from '../reader.ts'
import { type TenantRow, tenantOf, type UserRow, userOf } from '../rows/accounts.ts'
import {
  type PlanRow,
  type PlanStateRow,
  planOf,
  planParams,
  planStateOf,
  type ScheduleRow,
  scheduleOf,
  type WindowRow,
  windowOf,
} from '../rows/ledger.ts'
import * as shared from '../shared/ledger.ts'
import { BEGIN_STOP, NOTE_STOP, OF_TENANT, SELECT_USER, UNDER_WAY } from '../sql/accounts.ts'
import {
  AWAKE,
  INSERT_PLAN,
  IS_HELD,
  LIST_PLANS,
  MIN_TRANCHE,
  PLAN_BY_NAME,
  PLAN_STATE,
  PLAN_STATES,
  PLANS_NAMED,
  SELECT_FUTURE_WINDOW,
  UPDATE_PLAN,
  USED_BEFORE_RESET,
  USED_STARTS,
  WINDOWS_OF_PLAN,
} from '../sql/ledger.ts'
import type { PlanAhead, PlanStore, WindowStore } from '../store.ts'
import { PLANS_PER_PAGE } from '../writes.ts'
import type { AuditLog } from './audit.ts'
import type { Driver } from './driver.ts'
import type { Connection, Database } from './file/connection.ts'
import type { TenantTime } from './tenant-time.ts'

export function createPlanStore(connection: Connection, ledger: Ledger, time: TenantTime): PlanStore {
  const { read, present } = connection
  const sql = prepare(connection)
  const listed = (row: ListedPlanRow) => {
    const plan = planOf(row)
    return { ...plan, tenant: tenantOf(row), window: ledger.current(plan.planId) }
  }

  function stateIn({ tenantId }: Tenant): (row: PlanStateRow) => PlanState {
    const held = sql.held.get({ tenant: tenantId }) === 1n
    const now = time.of(tenantId, present())
    return (row) => ({ ...planStateOf(row), held, now })
  }

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

    readPlans: (tenant, { after, limit }) =>
      read(() =>
        sql.ofTenant.all({ tenant: tenant.tenantId, after: after ?? '', limit }).map(stateIn(tenant)),
      ),

    readPlan: (tenant, partnerPlanId) =>
      read(() => {
        const row = sql.oneOfTenant.get({ tenant: tenant.tenantId, partner_plan_id: partnerPlanId })
        return row ? stateIn(tenant)(row) : null
      }),

    listPlans: (filter, { after, limit }) =>
      read(() => sql.list.all({ ...filter, after: after ?? 0, limit }).map(listed)),

    findPlans: (partnerPlanId) =>
      read(() =>
        sql.named.all({ partner_plan_id: partnerPlanId }).map((row) => {
          const plan = listed(row)
          const schedule = sql.schedule.get(plan.planId)
          return {
            ...plan,
            windows: sql.windows.all({ plan_id: plan.planId }).map(windowOf),
            schedule: schedule ? scheduleOf(schedule) : null,
          }
        }),
      ),
  }
}

type ListedPlanRow = PlanRow & TenantRow

function prepare({ db }: Connection) {
  return {
    user: db.prepare<object, UserRow>(SELECT_USER),
    plan: db.prepare<object, PlanRow>(PLAN_BY_NAME),
    usedStarts: db.prepare<object, bigint>(USED_STARTS).pluck(),
    usedBeforeReset: db.prepare<object, bigint | null>(USED_BEFORE_RESET).pluck(),
    minTranche: db.prepare<object, bigint>(MIN_TRANCHE).pluck(),
    insert: db.prepare(INSERT_PLAN),
    update: db.prepare(UPDATE_PLAN),
    ofTenant: db.prepare<object, PlanStateRow>(PLAN_STATES),
    oneOfTenant: db.prepare<object, PlanStateRow>(PLAN_STATE),
    held: db.prepare<object, bigint>(IS_HELD).pluck(),
    list: db.prepare<object, ListedPlanRow>(LIST_PLANS),
    named: db.prepare<object, ListedPlanRow>(PLANS_NAMED),
    windows: db.prepare<object, WindowRow>(WINDOWS_OF_PLAN),
    schedule: db.prepare<[number], ScheduleRow>('select * from schedules where plan_id = ?'),
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

// Windows that were rolled ahead by a wrong clock: found plan by plan, and brought back to their place on the grid.

type Row = PlanRow & TenantRow & WindowRow & { min_tranche: bigint }

/** For the transactions of other files. */
function createAhead(db: Database, ledger: Ledger) {
  const sql = {
    page: db.prepare<object, Row>(
      `${SELECT_FUTURE_WINDOW} and p.plan_id > :after and ${OF_TENANT} order by p.plan_id limit :limit`,
    ),
    all: db.prepare<object, Row>(`${SELECT_FUTURE_WINDOW} order by p.tenant_id, p.plan_id`),
    one: db.prepare<object, Row>(`${SELECT_FUTURE_WINDOW} and p.plan_id = :plan_id`),
  }

  /** Null for a window that is where it belongs: the slots before it have no money left. */
  function judge(row: Row, now: Instant): PlanAhead | null {
    const [plan, window] = [planOf(row), windowOf(row)]
    const slot = slotDue({ ...window, ...plan }, plan.startDate, now)
    const place = ledger.freeSlot(plan.planId, slot, leastInstruction(row.min_tranche as Usd, plan.amount))
    return place.start < window.start && place.end < window.end
      ? { ...plan, tenant: tenantOf(row), window, place }
      : null
  }

  return {
    page: (bounds: object, now: Instant) => sql.page.all({ ...bounds, now }),
    all: (now: Instant) => sql.all.all({ now }),
    judge,
    one(planId: number, now: Instant): { plan: PlanAhead; minTranche: Usd } | null {
      const row = sql.one.get({ plan_id: planId, now })
      const plan = row ? judge(row, now) : null
      return row && plan ? { plan, minTranche: row.min_tranche as Usd } : null
    },
  }
}

export function createWindowStore(connection: Connection, ledger: Ledger, audit: AuditLog): WindowStore {
  const { db, clock, read, write } = connection
  const ahead = createAhead(db, ledger)
  return {
    listAhead: (filter, { after, limit }) =>
      read(() => {
        const now = clock()
        const rows = ahead.page({ ...filter, after: after ?? 0, limit }, now)
        const last = rows.at(-1)
        return {
          plans: rows.flatMap((row) => ahead.judge(row, now) ?? []),
          cursor: last && rows.length === limit ? Number(last.plan_id) : null,
        }
      }),

    bringBack: (planId, entryOf) =>
      write((now) => {
        const found = ahead.one(planId, now)
        if (!found) return null
        const { plan, minTranche } = found
        // Not `ended`: it never ran its course, and nobody missed the money that it leaves.
        ledger.closeCurrent(planId, 'reset', now)
        ledger.open(planId, plan.place, minTranche)
        ledger.wake(planId)
        audit.add(entryOf(plan, now), now)
        return plan
      }),
  }
}

// Disables of users. Whatever its user's plans, a disable is in force from its first transaction on: the user is
// disabled in it, and so are the first plans. A user with more plans than one transaction should hold has the others
// stopped page by page, and until then nothing fires for the user and nothing of the user's tenant is handed out
// (docs/decisions/commits.md#a-disable-of-many-plans).

export type StopCounts = { plansPaused: number; executionsCancelled: number }
export type Stops = ReturnType<typeof createStops>

type StopRow = { user_id: bigint; plan_id: bigint; plans_paused: bigint; executions_cancelled: bigint }

export function createStops({ db }: Connection, ledger: Ledger, time: TenantTime) {
  const sql = prepareStops(db)

  /** Stops the plans that follow `after`. `last` is null when there are no more. */
  function stopPage(userId: bigint, after: bigint, now: Instant): StopCounts & { last: bigint | null } {
    const planIds = sql.plans.all({ user_id: userId, after, limit: PLANS_PER_PAGE })
    const plans = JSON.stringify(planIds.map(Number))
    const executionsCancelled = ledger.cancelOpen(planIds.map(Number), now)
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

function prepareStops(db: Connection['db']) {
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
