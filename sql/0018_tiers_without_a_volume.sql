-- A tier without a volume is for overrides only: null says so, where 0 stood for both. A tier at 0 that came later than
-- one which has always begun at 0 was never reached, so that is what its 0 meant.
alter table tiers add column begins_at integer check (begins_at >= 0);
update tiers set begins_at = min_volume_usd where min_volume_usd > 0 or not exists (
  select 1 from tiers older where older.name <> tiers.name
  group by older.name
  having max(older.min_volume_usd) = 0
    and (min(older.from_month), older.name)
      < ((select min(own.from_month) from tiers own where own.name = tiers.name), tiers.name));
alter table tiers drop column min_volume_usd;
alter table tiers rename column begins_at to min_volume_usd;
