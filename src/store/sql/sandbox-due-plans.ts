// When a plan of a sandbox is due: its tenant has a time of its own, so no range along an index finds it.

/**
 * Whether a pass must look at a schedule `s` at `now` (an SQL expression), when the price is `:price` or unknown and
 * the failsafe begins `:lead` before a window's end.
 */
export const isDueAt = (now: string): string =>
  `s.awake = 1 and (s.next_run_at <= ${now}
     or (s.fireable >= s.floor and s.window_start <= ${now} and s.window_end <= ${now} + :lead)
     or (cast(:price as bigint) is null and s.clock_at <= ${now}) or s.limit_price >= :price)`

/** Later than every instant. */
const NEVER = 2n ** 62n
const after = (at: string): string => `case when ${at} > :after then ${at} else ${NEVER} end`

/**
 * The first instant after `:after` at which a plan of a tenant is to be looked at; of those that come within
 * `:together` of it, the last, where each plan counts with its next one alone. Reads every plan of the tenant once.
 * `least` is the function that returns the least of its arguments.
 */
export const nextStop = (least: 'min' | 'least'): string => `
  with stops as materialized (
    select ${least}(${['s.next_run_at', 's.window_end', 's.window_end - :lead', 's.clock_at'].map(after).join(', ')}) as at
    from plans p join schedules s on s.plan_id = p.plan_id where p.tenant_id = :tenant and s.awake = 1)
  select max(at) as at from stops where at < ${NEVER} and at <= (select min(at) from stops) + :together`

export const PLANS_OF_TENANT = 'select count(*) as plans from plans where tenant_id = :tenant'
