-- Months that have been reported as final, for good.
create table closed_months (
  month text primary key check (month glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]'),
  period_end integer not null,
  closed_at integer not null
) strict, without rowid;
-- One row: the end of what has been reported. Nothing is ever dated before it again, whatever the clock does.
create table reported_until (
  one integer primary key check (one = 1),
  at integer not null
) strict;
create index executions_by_cancelled on executions (tenant_id, cancelled_at) where cancelled_at is not null;
