-- A tier without a volume is for overrides only: null says so, where 0 stood for both. A tier at 0 that came later than
-- one which has always begun at 0 was never reached, so that is what its 0 meant.
alter table tiers alter column min_volume_usd drop not null;
update tiers set min_volume_usd = null where min_volume_usd = 0 and exists (
  select 1 from tiers older where older.name <> tiers.name
  group by older.name
  having max(older.min_volume_usd) = 0
    and (min(older.from_month), older.name)
      < ((select min(own.from_month) from tiers own where own.name = tiers.name), tiers.name));
