// Windows and schedules as both stores write them.

const SCHEDULE_COLUMNS =
  `next_run_at limit_price clock_at window_start window_end budget fireable floor tranche_index
  slots units_per_slot units_fired slot reference_price half_width extras_left next_extra_at
  digest`.split(/\s+/)

/** A plan's schedule for its new window, asleep, replacing the one before. */
export const PUT_SCHEDULE = `
  insert into schedules (plan_id, window_id, awake, ${SCHEDULE_COLUMNS.join(', ')})
  values (:plan_id, :window_id, 0, ${SCHEDULE_COLUMNS.map((column) => `:${column}`).join(', ')})
  on conflict (plan_id) do update set window_id = excluded.window_id, awake = 0,
    ${SCHEDULE_COLUMNS.map((column) => `${column} = excluded.${column}`).join(', ')}`

/** How much of a slot a plan's windows that start in it have used, and the latest start that executions carry. */
export function slotUse({
  planId,
  start,
  end,
}: Readonly<Record<'planId' | 'start' | 'end', string>>): string {
  const inSlot = `plan_id = ${planId} and window_start >= ${start} and window_start < ${end}`
  return `
    select (select cast(coalesce(sum(spent + reserved), 0) as bigint) from windows where ${inSlot}) as claimed,
      (select max(window_start) from executions where ${inSlot}) as used`
}
export const SLOT_USE = slotUse({ planId: ':plan_id', start: ':start', end: ':end' })

/** An open window stays open here, and its place among the open ones does not change. */
export const WRITE_OPEN_WINDOW = `
  update windows set reserved = :reserved, spent = :spent, excess = :excess, released = :released
  where window_id = :window_id and closed_at is null`

export const WRITE_CLOSED_WINDOW = `
  update windows set reserved = :reserved, spent = :spent, excess = :excess, released = :released,
    closed_at = :closed_at, close_reason = :close_reason
  where window_id = :window_id`
