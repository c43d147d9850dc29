// When a plan of a sandbox is due: its tenant has a time of its own, so no range along an index finds it.

/**
 * Whether a pass must look at a schedule `s` at `now` (an SQL expression), when the price is `:price` or unknown and the
 * failsafe begins `:lead` before a window's end.
 */
export const isDueAt = (now: string): string =>
  `s.awake = 1 and (s.next_run_at <= ${now}
     or (s.fireable >= s.floor and s.window_start <= ${now} and s.window_end <= ${now} + :lead)
     or (cast(:price as bigint) is null and s.clock_at <= ${now}) or s.limit_price >= :price)`

const AWAKE = 'plans p join schedules s on s.plan_id = p.plan_id where p.tenant_id = :tenant and s.awake = 1'

/** The first instant after `:after` at which a plan of a tenant is to be looked at. */
export const NEXT_STOP = `
  select min(at) as at from (
    select s.next_run_at as at from ${AWAKE} union all select s.window_end from ${AWAKE}
    union all select s.window_end - :lead from ${AWAKE} union all select s.clock_at from ${AWAKE}) stops
  where at > :after`
