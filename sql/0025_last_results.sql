-- What the jobs beside the scheduler came to when they ended last, on each host, and until when that is good: what the
-- check found, how the backup went, which certificate a service shows. One row each, written again every time.
create table last_results (
  job text not null,
  host text not null,
  at integer not null,
  ok integer not null check (ok in (0, 1)),
  well_at integer,
  ends_at integer,
  message text not null,
  primary key (job, host)
) strict, without rowid;
