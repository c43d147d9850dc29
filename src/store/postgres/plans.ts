// Plans as partners change them on a server: a twin of ../sqlite/plans.ts, because it is a call like any other.

import type { Usd } from '../../core/money.ts'
import type { Caller } from '../../core/partner.ts'
import type { PlanChange } from '../../core/plan.ts'
import type { Instant } from '../../core/time.ts'
import { type UserRow, userOf } from '../rows/accounts.ts'
import { type PlanRow, planOf, planParams } from '../rows/ledger.ts'
import * as shared from '../shared/ledger.ts'
import {
  INSERT_PLAN,
  MIN_TRANCHE,
  PLAN_BY_NAME,
  SELECT_USER,
  UPDATE_PLAN,
  USED_BEFORE_RESET,
  USED_STARTS,
} from '../sql/fragments.ts'
import { instant, instantOrNull, query } from '../statement.ts'
import type { PlanStore } from '../store.ts'
import { callOf } from '../transaction.ts'
import { onPipe, within } from './driver.ts'
import type { Connection } from './server/connection.ts'
import { onceMore } from './server/errors.ts'
import type { Tx } from './server/pipeline.ts'

const USER = query<UserRow>(SELECT_USER)
const BY_NAME = query<PlanRow>(PLAN_BY_NAME)
const STARTS = query<{ window_start: bigint }>(USED_STARTS)
const BEFORE_RESET = query<{ used: bigint | null }>(USED_BEFORE_RESET)
const MINIMUM = query<{ min_tranche: bigint }>(MIN_TRANCHE)
const INSERT = query<{ plan_id: bigint }>(`${INSERT_PLAN} returning plan_id`)
const UPDATE = query(UPDATE_PLAN)

export const createPlanWriter = (connection: Connection): Pick<PlanStore, 'changePlan'> => ({
  changePlan: (tenant, ids, decide) => onceMore(() => changePlan(connection, tenant, ids, decide)),
})

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
    const plan = planRow ? planOf(planRow) : null
    const [window, starts] = plan
      ? await Promise.all([ledger.current(tx, plan.planId), tx.all(STARTS, { plan_id: plan.planId, now })])
      : [null, []]
    const usedStarts = starts.map(({ window_start }) => instant(window_start))
    const usedBeforeReset = instantOrNull(before?.used ?? null)
    const user = userRow ? userOf(userRow) : null
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
  tx.unwaited(ledger.wake(tx, planId))
}

// The parts of the ledger that both stores share (../shared/ledger.ts), for the transactions that this store writes by
// itself.

export const lockExecutions = onPipe(shared.lockExecutions)
export const lockSchedules = onPipe(shared.lockSchedules)
const lockPlanByName = onPipe(shared.lockPlanByName)

export const ledger = {
  current: onPipe(shared.currentWindow),
  write: onPipe(shared.writeWindow),
  freeCell: onPipe(shared.freeCell),
  nextId: (tx: Tx) => within(tx, (steps) => steps.nextId('windows')),
  /** Both of its statements are sent at once: what follows them need not wait for their answers. */
  open: onPipe(shared.openWindow),
  closeCurrent: onPipe(shared.closeCurrent),
  replaceCurrent: onPipe(shared.replaceCurrent),
  wake: onPipe(shared.wake),
  cancelOpen: onPipe(shared.cancelOpen),
}
