// A plan with its user's status, its current window, and the part of its schedule that its next step depends on.

import type { Usd } from '../../core/money.ts'
import type { PlanState } from '../../core/plan-next-step.ts'
import { instant } from './instant.ts'
import { type PlanRow, planOf } from './plan.ts'
import { type WindowRow, windowOf } from './window.ts'

/** The window's columns are all there or all null, and so are the schedule's. */
export type PlanStateRow = PlanRow & {
  user_status: string
  s_next_run_at: bigint | null
  s_fireable: bigint
  s_floor: bigint
} & (WindowRow | { window_id: null })

export const planStateOf = (row: PlanStateRow): Omit<PlanState, 'held' | 'now'> => ({
  ...planOf(row),
  userStatus: row.user_status as PlanState['userStatus'],
  window: row.window_id === null ? null : windowOf(row),
  schedule:
    row.s_next_run_at === null
      ? null
      : { nextRunAt: instant(row.s_next_run_at), fireable: row.s_fireable as Usd, floor: row.s_floor as Usd },
})
