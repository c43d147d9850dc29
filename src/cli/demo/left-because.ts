// Why a window of the demonstration ended with money left.

import { leastInstruction } from '../../core/least-instruction.ts'
import { formatUsd, type Usd } from '../../core/money.ts'
import type { Window } from '../../core/window.ts'
import type { ListedPlan } from '../../store/plans.ts'

type Shortfall = { plan: ListedPlan; window: Window; left: Usd; minTranche: Usd }

export function leftBecauseOf({ plan, window, left, minTranche }: Shortfall): string {
  if (window.closed?.reason === 'cancelled') return 'the plan was cancelled'
  if (!window.closed && plan.status === 'paused') return 'its user was disabled'
  const floor = leastInstruction(minTranche, window.budget)
  return left < floor
    ? `under the smallest tranche of ${formatUsd(floor)}`
    : 'came back too late to be tried again'
}
