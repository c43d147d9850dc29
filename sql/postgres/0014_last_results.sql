-- What the jobs beside the scheduler came to when they ended last, on each host, and until when that is good: what the
-- check found, how the backup went, which certificate a service shows. One row each, written again every time.
create table last_results (
  job text collate "C" not null,
  host text collate "C" not null,
  at bigint not null,
  ok bigint not null check (ok in (0, 1)),
  well_at bigint,
  ends_at bigint,
  message text collate "C" not null,
  primary key (job, host)
);
