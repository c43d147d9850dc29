// A plan's schedule: the row and the value, and back.

import type { Price, Usd } from '../../core/money.ts'
import type { Schedule } from '../../core/schedule-state.ts'
import { withDigest } from '../digests.ts'
import { instant, instantOrNull } from './instant.ts'
import { priceOrNull } from './price.ts'

export type ScheduleRow = {
  plan_id: bigint
  window_id: bigint
  next_run_at: bigint
  limit_price: bigint | null
  clock_at: bigint | null
  window_start: bigint
  window_end: bigint
  budget: bigint
  fireable: bigint
  floor: bigint
  tranche_index: bigint
  slots: bigint | null
  units_per_slot: bigint | null
  units_fired: bigint | null
  slot: bigint
  reference_price: bigint | null
  half_width: number | null
  extras_left: bigint
  next_extra_at: bigint
  digest: bigint
}
export const scheduleOf = (row: ScheduleRow): Schedule => ({
  planId: Number(row.plan_id),
  windowId: Number(row.window_id),
  windowStart: instant(row.window_start),
  windowEnd: instant(row.window_end),
  budget: row.budget as Usd,
  fireable: row.fireable as Usd,
  floor: row.floor as Usd,
  trancheIndex: Number(row.tranche_index),
  layout:
    row.slots === null
      ? null
      : {
          slots: Number(row.slots),
          unitsPerSlot: Number(row.units_per_slot),
          unitsFired: Number(row.units_fired),
        },
  slot: Number(row.slot),
  reference:
    row.reference_price === null || row.half_width === null
      ? null
      : { price: row.reference_price as Price, halfWidth: row.half_width },
  nextRunAt: instant(row.next_run_at),
  limitPrice: priceOrNull(row.limit_price),
  clockAt: instantOrNull(row.clock_at),
  extrasLeft: Number(row.extras_left),
  nextExtraAt: instant(row.next_extra_at),
})
export const scheduleParams = (schedule: Schedule) =>
  withDigest('schedules', {
    plan_id: schedule.planId,
    window_id: schedule.windowId,
    next_run_at: schedule.nextRunAt,
    limit_price: schedule.limitPrice,
    clock_at: schedule.clockAt,
    window_start: schedule.windowStart,
    window_end: schedule.windowEnd,
    budget: schedule.budget,
    fireable: schedule.fireable,
    floor: schedule.floor,
    tranche_index: schedule.trancheIndex,
    slots: schedule.layout?.slots ?? null,
    units_per_slot: schedule.layout?.unitsPerSlot ?? null,
    units_fired: schedule.layout?.unitsFired ?? null,
    slot: schedule.slot,
    reference_price: schedule.reference?.price ?? null,
    half_width: schedule.reference?.halfWidth ?? null,
    extras_left: schedule.extrasLeft,
    next_extra_at: schedule.nextExtraAt,
  })
