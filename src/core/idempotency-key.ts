// The key by which a partner tells one purchase from another: if it ever changed, a partner could buy twice.

import type { Execution } from './execution.ts'
import type { Instant } from './instant.ts'

/**
 * Built from the plan id, the window start and the tranche index; the same for every delivery. No other instruction of
 * its environment has it, but one of the other environment may.
 */
export const idempotencyKey = (execution: Execution, formatStart: (at: Instant) => string): string =>
  `${execution.partnerPlanId}:${formatStart(execution.windowStart)}:${execution.trancheIndex}`
