-- The newest requests that were sent to each tenant's webhook, and how they ended. A test announces nothing: its count is
-- 0. Numbered for each tenant without a gap, so that the oldest one is found by its number. Of the address only the
-- origin is kept.
create table webhook_deliveries (
  tenant_id integer not null references tenants,
  number integer not null check (number between 1 and 1000000000000),
  ended_at integer not null,
  count integer not null check (count >= 0),
  earliest_execution_id text not null,
  origin text not null,
  status_code integer,
  failure_reason text check (length(failure_reason) between 1 and 500),
  duration_ms integer not null check (duration_ms >= 0),
  primary key (tenant_id, number)
) strict, without rowid;
