-- What a silence is told by: who polled last, what came of the orders, which feed was asked, how the file grows
-- (docs/decisions/0051-what-silence-leaves-behind.md).

-- When a tenant last polled, by the clock of the machine and to the minute. Until a poll has been seen, the last use of
-- a key stands in for it, so that nobody is taken for silent because of an upgrade.
create table polls (
  tenant_id integer primary key references tenants,
  polled_at integer not null
) strict;
insert into polls
  select tenant_id, max(last_used_at) from api_keys where last_used_at is not null group by tenant_id;

-- What came of a tenant's orders, by the hour since 1970 in the tenant's time; a day of them is kept. Counted here, so
-- that no writer can forget it, of whatever version.
create table outcomes (
  tenant_id integer not null references tenants,
  hour integer not null,
  filled integer not null,
  failed integer not null,
  primary key (tenant_id, hour)
) strict, without rowid;
insert into outcomes
  select tenant_id, recorded_at / 3600000, sum(usd_amount is not null), sum(usd_amount is null) from trades
  where recorded_at > (select max(recorded_at) from trades) - 86400000 group by 1, 2;
create trigger trades_counted after insert on trades
  begin
    insert into outcomes
      values (new.tenant_id, new.recorded_at / 3600000, new.usd_amount is not null, new.usd_amount is null)
      on conflict do update set filled = filled + excluded.filled, failed = failed + excluded.failed;
  end;
create trigger outcomes_forgotten after insert on outcomes
  begin
    delete from outcomes where tenant_id = new.tenant_id and hour < new.hour - 24;
  end;

-- Executions that were delivered again and again. Few at any time: the rest of what is open is not in it.
create index executions_stuck on executions (tenant_id, execution_id)
  where status in ('pending', 'sent') and delivered_count >= 5;

-- The feed a pass asked, null when it asked none; why it gave no price; and the size of the database then.
alter table ticks add column feed text;
alter table ticks add column feed_failure text;
alter table ticks add column database_bytes integer;
