-- Writes that a process was told are committed, and that the server does not have any more: it came back as a promoted
-- standby, or from a backup, without its last ones. While one is undecided, nothing fires and nothing is handed out.
create table lost_writes (
  lost_id bigint generated always as identity primary key,
  found_at bigint not null,
  -- How many, at least, and when the first and the last of them were made.
  writes bigint not null check (writes > 0),
  first_at bigint not null,
  last_at bigint not null,
  -- Whose: partners with their environments, for people.
  tenants text collate "C" not null,
  -- What the server was then and is now, for people.
  server text collate "C" not null,
  decided_at bigint
);
create index lost_writes_undecided on lost_writes (lost_id) where decided_at is null;
