-- The one state of a database that must not act (docs/decisions/operating.md#frozen). It takes the place of two others,
-- whose tables stay, and stay empty: a schema only grows.
create table frozen (
  one integer primary key check (one = 1),
  kind text not null check (kind in ('operator', 'restored', 'moved', 'timeline')),
  at integer not null,
  by text not null,
  reason text not null,
  -- Where it is now, without a password.
  moved_to text check ((kind = 'moved') = (moved_to is not null)),
  -- The names under which the databases are kept that it has replaced, the latest first, as JSON.
  replaced text not null
) strict;
insert into frozen select 1, 'restored', at, 'tranche', 'restored from ' || copy, null, replaced from standstill;
delete from standstill;
