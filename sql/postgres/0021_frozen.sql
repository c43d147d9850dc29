-- The one state of a database that must not act (docs/decisions/operating.md#frozen). It takes the place of others,
-- whose tables stay, and stay empty: a schema only grows.
create table frozen (
  one bigint primary key check (one = 1),
  kind text collate "C" not null check (kind in ('operator', 'restored', 'moved', 'timeline')),
  at bigint not null,
  by text collate "C" not null,
  reason text collate "C" not null,
  -- Where it is now, without a password.
  moved_to text collate "C" check ((kind = 'moved') = (moved_to is not null)),
  -- The names under which the databases are kept that it has replaced, the latest first, as JSON.
  replaced text collate "C" not null
);
insert into frozen select 1, 'restored', at, 'tranche', 'restored from ' || copy, null, replaced from standstill;
insert into frozen
  select 1, 'timeline', max(found_at), 'tranche',
    'the server came back without ' || sum(writes) || ' writes or more that had been answered', null, '[]'
  from lost_writes where decided_at is null having count(*) > 0
  on conflict do nothing;
delete from standstill;
delete from lost_writes;

-- The server that took the last write, by its system identifier and its timeline. It belongs to the server and not to
-- the ledger, so no copy carries it.
create table server_line (
  one bigint primary key check (one = 1),
  system_id text collate "C" not null,
  timeline text collate "C" not null,
  -- Whether a write ever waited for a standby: only there is one missed.
  had_standby bigint not null check (had_standby in (0, 1))
);
insert into server_line
  select 1, system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    (current_setting('synchronous_standby_names') <> '')::int
  from pg_control_system();
