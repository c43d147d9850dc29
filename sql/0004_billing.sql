-- Months that have been reported as final. Nothing is ever dated before the end of one again, whatever the clock does.
create table closed_months (
  month text primary key check (month glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]'),
  period_end integer not null,
  closed_at integer not null
) strict, without rowid;
create index closed_months_by_end on closed_months (period_end);
create index executions_by_cancelled on executions (tenant_id, cancelled_at) where cancelled_at is not null;
