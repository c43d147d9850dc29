// The stop that a disable begins, and how far it has come, where both stores use the same SQL.

/** That a row of stops is under way. A damaged one of a user who is not disabled stops nobody's plans. */
export const UNDER_WAY = `stops.ended_at is null and exists (
  select 1 from users u where u.user_id = stops.user_id and u.status = 'disabled')`

export const BEGIN_STOP = `
  insert into stops (user_id, tenant_id, plan_id, plans_paused, executions_cancelled, begun_at)
  values (:user_id, :tenant, :plan_id, :plans_paused, :executions_cancelled, :now)
  on conflict (user_id) do update set tenant_id = excluded.tenant_id, plan_id = excluded.plan_id,
    plans_paused = excluded.plans_paused, executions_cancelled = excluded.executions_cancelled,
    begun_at = excluded.begun_at, ended_at = null`

export const NOTE_STOP = `
  update stops set plan_id = :plan_id, plans_paused = plans_paused + :plans_paused,
    executions_cancelled = executions_cancelled + :executions_cancelled, ended_at = :ended_at
  where user_id = :user_id`
