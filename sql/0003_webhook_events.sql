-- One wake-up for each tenant and pass, written with the executions it announces. It is claimed at most once, and only
-- by the pass that wrote it: after a crash it stays here unsent, because polling is the truth and a late wake-up none.
create table webhook_events (
  tick_id integer not null,
  tenant_id integer not null references tenants,
  count integer not null check (count > 0),
  earliest_execution_id text not null references executions,
  created_at integer not null,
  claimed_at integer,
  primary key (tick_id, tenant_id)
) strict, without rowid;
create index webhooks_paused on webhooks (tenant_id) where status = 'paused';
