// Plans: written by partners, listed for operators.

import type { Instant } from '../../../core/instant.ts'
import type { Usd } from '../../../core/money.ts'
import type { Caller, Tenant } from '../../../core/partner.ts'
import type { PlanChange } from '../../../core/plan.ts'
import type { PlanState } from '../../../core/plan-next-step.ts'
import { intact } from '../../digests.ts'
import type { ListedPlan, PlanStore } from '../../plans.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import { type PlanRow, planOf, planParams } from '../../rows/plan.ts'
import { type PlanStateRow, planStateOf } from '../../rows/plan-state.ts'
import { type ScheduleRow, scheduleOf } from '../../rows/schedule.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type UserRow, userOf } from '../../rows/user.ts'
import { type WindowRow, windowOf } from '../../rows/window.ts'
import { SELECT_USER } from '../../sql/accounts.ts'
import {
  INSERT_PLAN,
  IS_HELD,
  LIST_PLANS,
  MIN_TRANCHE,
  PLAN_BY_NAME,
  PLAN_STATE,
  PLAN_STATES,
  PLANS_NAMED,
  UPDATE_PLAN,
  USED_BEFORE_RESET,
  USED_STARTS,
  WINDOWS_OF_PLAN,
} from '../../sql/plans.ts'
import { callOf } from '../../transaction.ts'
import { timeOf } from '../sandbox/tenant-time.ts'
import type { Connection } from '../server/connection.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { onceMore } from '../server/try-again.ts'
import { cancelOpen } from './cancel-open.ts'
import { lockPlanByName } from './row-locks.ts'
import { ledger } from './windows-and-schedules.ts'

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
  if (cancelsExecutions) await cancelOpen(tx, [planId], now)
  if (close && open)
    await ledger.replaceCurrent(tx, { reason: close, now }, { planId, windowId, opening: open, minTranche })
  else if (close) await ledger.closeCurrent(tx, planId, close, now)
  else if (open) tx.unwaited(ledger.open(tx, { planId, windowId, opening: open, minTranche }))
  tx.unwaited(ledger.wake(tx, [planId]))
}
