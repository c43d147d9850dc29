-- What one partner may cost the others.

-- A poll asks for what was never delivered, in order, and for leases that are over: each is one step along this index,
-- however many executions are out under a lease. It replaces the order of creation, in which a poll had to step over them.
drop index executions_open;
create index executions_open on executions (tenant_id, lease_expires_at, created_at, execution_id)
  where status in ('pending', 'sent');

-- Disables of users with so many plans that one transaction would keep everybody waiting: the user is disabled at once,
-- the plans follow page by page. plan_id is the last one done; the counts are what the partner is answered.
create table stops (
  user_id integer primary key references users,
  tenant_id integer not null references tenants,
  plan_id integer not null default 0,
  plans_paused integer not null default 0 check (plans_paused >= 0),
  executions_cancelled integer not null default 0 check (executions_cancelled >= 0),
  begun_at integer not null,
  ended_at integer
) strict;
create index stops_under_way on stops (tenant_id) where ended_at is null;
