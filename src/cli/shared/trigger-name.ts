// Why a tranche fired, in words that a person reads.

import type { Trigger } from '../../core/execution.ts'

export const TRIGGER_NAME: Record<Trigger, string> = {
  slot_start: 'slot start',
  limit: 'limit',
  deadline: 'deadline',
  catch_up: 'catch-up',
  failsafe: 'failsafe',
  clock: 'clock',
}
