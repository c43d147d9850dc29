// Plans: written by partners, listed for operators.

import type { Usd } from '../../core/money.ts'
import type { Caller, Tenant } from '../../core/partner.ts'
import type { PlanChange, PlanState } from '../../core/plan.ts'
import type { Instant } from '../../core/time.ts'
import { leastInstruction, type Opening, slotDue, type Window } from '../../core/window.ts'
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
import type { ListedPlan, PlanAhead, PlanStore, WindowStore } from '../store.ts'
import { callOf, ofTenant } from '../transaction.ts'
import { PLANS_PER_PAGE } from '../writes.ts'
import { addAudit } from './audit.ts'
import { within } from './driver.ts'
import { type Connection, onceMore } from './server/connection.ts'
import type { Tx } from './server/pipeline.ts'
import { query } from './server/statement.ts'
import { timeOf, writeAs } from './tenant-time.ts'

type ListedPlanRow = PlanRow & TenantRow

const USER = query<UserRow>(SELECT_USER)
const BY_NAME = query<PlanRow>(PLAN_BY_NAME)
const STARTS = query<{ window_start: bigint }>(USED_STARTS)
const BEFORE_RESET = query<{ used: bigint | null }>(USED_BEFORE_RESET)
const MINIMUM = query<{ min_tranche: bigint }>(MIN_TRANCHE)
const INSERT = query<{ plan_id: bigint }>(`${INSERT_PLAN} returning plan_id`)
const UPDATE = query(UPDATE_PLAN)
const STATES = query<PlanStateRow>(PLAN_STATES)
const STATE = query<PlanStateRow>(PLAN_STATE)
const HELD = query<{ held: bigint }>(IS_HELD)
const LIST = query<ListedPlanRow>(LIST_PLANS)
const NAMED = query<ListedPlanRow>(PLANS_NAMED)
const CURRENT_WINDOWS = query<WindowRow>(
  'select * from windows where plan_id = any(:plan_ids::bigint[]) and closed_at is null',
)
const WINDOWS = query<WindowRow>(WINDOWS_OF_PLAN)
const SCHEDULE = query<ScheduleRow>('select * from schedules where plan_id = :plan_id')

/** Plans as they are listed, each with its current window. */
async function listed(tx: Tx, rows: readonly ListedPlanRow[]): Promise<ListedPlan[]> {
  const current = await tx.all(CURRENT_WINDOWS, { plan_ids: rows.map(({ plan_id }) => plan_id) })
  const windows = new Map(current.map((row) => [row.plan_id, windowOf(row)]))
  return rows.map((row) => ({
    ...planOf(row),
    tenant: tenantOf(row),
    window: windows.get(row.plan_id) ?? null,
  }))
}

export function createPlanStore(connection: Connection): PlanStore {
  const { clock, read } = connection

  async function stateIn(tx: Tx, { tenantId }: Tenant): Promise<(row: PlanStateRow) => PlanState> {
    const [held, now] = await Promise.all([
      tx.get(HELD, { tenant: tenantId }),
      clock.present(tx).then((real) => timeOf(tx, tenantId, real)),
    ])
    return (row) => ({ ...planStateOf(row), held: held?.held === 1n, now })
  }

  return {
    changePlan: (tenant, ids, decide) => onceMore(() => changePlan(connection, tenant, ids, decide)),

    readPlans: (tenant, { after, limit }) =>
      read(async (tx) => {
        const rows = tx.all(STATES, { tenant: tenant.tenantId, after: after ?? '', limit })
        const [found, state] = await Promise.all([rows, stateIn(tx, tenant)])
        return found.map(state)
      }, callOf(tenant)),

    readPlan: (tenant, partnerPlanId) =>
      read(async (tx) => {
        const row = await tx.get(STATE, { tenant: tenant.tenantId, partner_plan_id: partnerPlanId })
        return row ? (await stateIn(tx, tenant))(row) : null
      }, callOf(tenant)),

    listPlans: (filter, { after, limit }) =>
      read(async (tx) => listed(tx, await tx.all(LIST, { ...filter, after: after ?? 0, limit }))),

    findPlans: (partnerPlanId) =>
      read(async (tx) => {
        const plans = await listed(tx, await tx.all(NAMED, { partner_plan_id: partnerPlanId }))
        return Promise.all(
          plans.map(async (plan) => {
            const own = { plan_id: plan.planId }
            const [windows, schedule] = await Promise.all([tx.all(WINDOWS, own), tx.get(SCHEDULE, own)])
            return {
              ...plan,
              windows: windows.map(windowOf),
              schedule: schedule ? scheduleOf(schedule) : null,
            }
          }),
        )
      }),
  }
}

function changePlan(
  connection: Connection,
  tenant: Caller,
  { partnerUserId, partnerPlanId }: Parameters<PlanStore['changePlan']>[1],
  decide: Parameters<PlanStore['changePlan']>[2],
) {
  return connection.write(async (tx) => {
    const scope = {
      tenant: tenant.tenantId,
      partner_user_id: partnerUserId,
      partner_plan_id: partnerPlanId,
    }
    const [times, , userRow, planRow, minimum, before] = await Promise.all([
      tx.times,
      lockPlanByName(tx, scope),
      tx.get(USER, scope),
      tx.get(BY_NAME, scope),
      tx.get(MINIMUM, scope),
      tenant.environment === 'test' ? tx.get(BEFORE_RESET, scope) : undefined,
    ])
    const now = times.of(tenant.tenantId)
    const plan = planRow ? planOf(intact('plans', planRow)) : null
    const [window, starts] = plan
      ? await Promise.all([ledger.current(tx, plan.planId), tx.all(STARTS, { plan_id: plan.planId, now })])
      : [null, []]
    const usedStarts = starts.map(({ window_start }) => instant(window_start))
    const usedBeforeReset = instantOrNull(before?.used ?? null)
    const user = userRow ? userOf(intact('users', userRow)) : null
    const change = decide({ user, plan, window, usedStarts, usedBeforeReset }, now)
    if (change.plan === plan) return plan

    const userId = (planRow ?? userRow)?.user_id as bigint
    const params = planParams(change.plan, { tenantId: tenant.tenantId, userId })
    const [planId, windowId] = await Promise.all([
      plan ? updated(tx, plan.planId, params) : inserted(tx, params),
      change.open ? ledger.nextId(tx) : 0,
    ])
    await follow(tx, { planId, windowId }, change, { now, minTranche: minimum?.min_tranche as Usd })
    return change.plan
  }, callOf(tenant))
}

async function inserted(tx: Tx, params: Record<string, unknown>): Promise<number> {
  return Number((await tx.get(INSERT, params))?.plan_id)
}

async function updated(tx: Tx, planId: number, params: Record<string, unknown>): Promise<number> {
  await tx.run(UPDATE, { ...params, plan_id: planId })
  return planId
}

/** What a change of a plan does to its executions, its window and its schedule. */
async function follow(
  tx: Tx,
  { planId, windowId }: { planId: number; windowId: number },
  { cancelsExecutions, close, open }: PlanChange,
  { now, minTranche }: { now: Instant; minTranche: Usd },
): Promise<void> {
  if (cancelsExecutions) await ledger.cancelOpen(tx, [planId], now)
  if (close && open)
    await ledger.replaceCurrent(tx, { reason: close, now }, { planId, windowId, opening: open, minTranche })
  else if (close) await ledger.closeCurrent(tx, planId, { reason: close, now })
  else if (open) tx.unwaited(ledger.open(tx, { planId, windowId, opening: open, minTranche }))
  tx.unwaited(ledger.wake(tx, [planId]))
}

// The parts of the ledger that both stores share (../shared/ledger.ts), for the transactions that this store writes by
// itself.

export const lockExecutions = (tx: Tx, tenantId: number, executionIds: readonly string[]) =>
  within(tx, (steps) => shared.lockExecutions(steps, tenantId, executionIds))
export const lockSchedules = (tx: Tx, planIds: readonly number[]) =>
  within(tx, (steps) => shared.lockSchedules(steps, planIds))
const lockPlans = (tx: Tx, planIds: readonly number[]) =>
  within(tx, (steps) => shared.lockPlans(steps, planIds))
const lockPlanByName = (tx: Tx, named: shared.NamedPlan) =>
  within(tx, (steps) => shared.lockPlanByName(steps, named))

export const ledger = {
  /** Throws DamagedRow. */
  current: (tx: Tx, planId: number) => within(tx, (steps) => shared.soundCurrent(steps, planId)),
  write: (tx: Tx, window: Window) => within(tx, (steps) => shared.writeWindow(steps, window)),
  freeSlot: (tx: Tx, planId: number, slot: Opening, floor: Usd) =>
    within(tx, (steps) => shared.freeSlot(steps, planId, slot, floor)),
  nextId: (tx: Tx) => within(tx, (steps) => steps.nextId('windows')),
  /** Both of its statements are sent at once: what follows them need not wait for their answers. */
  open: (tx: Tx, window: shared.NewWindow) => within(tx, (steps) => shared.openWindow(steps, window)),
  closeCurrent: (tx: Tx, planId: number, closing: shared.Closing) =>
    within(tx, (steps) => shared.closeCurrent(steps, planId, closing)),
  replaceCurrent: (tx: Tx, closing: shared.Closing, next: shared.NewWindow) =>
    within(tx, (steps) => shared.replaceCurrent(steps, closing, next)),
  wake: (tx: Tx, planIds: readonly number[]) => within(tx, (steps) => shared.wake(steps, planIds)),
  cancelOpen: (tx: Tx, planIds: readonly number[], now: Instant) =>
    within(tx, (steps) => shared.cancelOpen(steps, planIds, now)),
}

// Windows that were rolled ahead by a wrong clock: found plan by plan, and brought back to their place on the grid.

type Row = PlanRow & TenantRow & WindowRow & { min_tranche: bigint }

const PAGE = query<Row>(
  `${SELECT_FUTURE_WINDOW} and p.plan_id > :after and ${OF_TENANT} order by p.plan_id limit :limit`,
)
const ONE = query<Row>(`${SELECT_FUTURE_WINDOW} and p.plan_id = :plan_id`)
const TENANT = query<{ tenant_id: bigint }>('select tenant_id from plans where plan_id = :plan_id')

/** Null for a window that is where it belongs: the slots before it have no money left. */
async function judge(tx: Tx, row: Row, now: Instant): Promise<PlanAhead | null> {
  const [plan, window] = [planOf(row), windowOf(row)]
  const slot = slotDue({ ...window, ...plan }, plan.startDate, now)
  const place = await ledger.freeSlot(
    tx,
    plan.planId,
    slot,
    leastInstruction(row.min_tranche as Usd, plan.amount),
  )
  return place.start < window.start && place.end < window.end
    ? { ...plan, tenant: tenantOf(row), window, place }
    : null
}

async function judged(tx: Tx, rows: readonly Row[], now: Instant): Promise<PlanAhead[]> {
  const found = await Promise.all(rows.map((row) => judge(tx, row, now)))
  return found.filter((plan) => plan !== null)
}

export function createWindowStore({ clock, look, read, write }: Connection): WindowStore {
  return {
    listAhead: (filter, { after, limit }) =>
      read(async (tx) => {
        const now = await clock.now(tx)
        const rows = await tx.all(PAGE, { ...filter, after: after ?? 0, limit, now })
        const last = rows.at(-1)
        return {
          plans: await judged(tx, rows, now),
          cursor: last && rows.length === limit ? Number(last.plan_id) : null,
        }
      }),

    async bringBack(planId, entryOf) {
      const owner = await look((tx) => tx.get(TENANT, { plan_id: planId }))
      if (!owner) return null
      return write(
        async (tx) => {
          const [{ real }] = await Promise.all([tx.times, lockPlans(tx, [planId])])
          const row = await tx.get(ONE, { plan_id: planId, now: real })
          const plan = row ? await judge(tx, row, real) : null
          if (!row || !plan) return null
          // Not `ended`: it never ran its course, and nobody missed the money that it leaves.
          const place = { planId, windowId: await ledger.nextId(tx) }
          const next = { ...place, opening: plan.place, minTranche: row.min_tranche as Usd }
          await ledger.replaceCurrent(tx, { reason: 'reset', now: real }, next)
          await ledger.wake(tx, [planId])
          await addAudit(tx, entryOf(plan, real), real)
          return plan
        },
        ofTenant({ tenantId: Number(owner.tenant_id) }),
      )
    },
  }
}

// Disables of users. Whatever its user's plans, a disable is in force from its first transaction on: the user is
// disabled in it, and so are the first plans. A user with more plans than one transaction should hold has the others
// stopped page by page, and until then nothing fires for the user and nothing of the user's tenant is handed out
// (docs/decisions/commits.md#a-disable-of-many-plans). A process that goes on with a stop, on whatever host, holds a
// lock on its user's row.

export type StopCounts = { plansPaused: number; executionsCancelled: number }
type StopRow = { user_id: bigint; plan_id: bigint; plans_paused: bigint; executions_cancelled: bigint }

const LOCK_STOPPED_USER = query('select from users where user_id = :user_id for no key update')
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
const STOPS_OF_TENANT = query<StopRow>(
  `select * from stops where tenant_id = :tenant and ${UNDER_WAY} limit 1`,
)
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
    ledger.cancelOpen(tx, planIds, now),
    tx.run(PAUSE, { ...plans, now }),
    tx.run(SLEEP, plans),
  ])
  const last = rows.length < PLANS_PER_PAGE ? null : (rows.at(-1)?.plan_id ?? null)
  return { plansPaused, executionsCancelled, last }
}

/** Does one more page of a user's stop, if the stop is still under way. */
async function goOn(tx: Tx, userId: bigint, now: Instant): Promise<boolean> {
  const user = { user_id: userId }
  const [, stop] = await Promise.all([tx.run(LOCK_STOPPED_USER, user), tx.get(OF_USER, user)])
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
      (await tx.get(STOPS_OF_TENANT, { tenant: tenantId })) !== undefined,

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
          (tx) => tx.get(STOPS_OF_TENANT, { tenant: tenant.tenantId }),
          callOf(tenant),
        )
        if (!stop) return
        await writeAs(connection, tenant, (tx, now) => goOn(tx, stop.user_id, now))
      }
    },
  }
}
