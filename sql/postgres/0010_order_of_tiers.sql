-- The order in which the names of tiers were first set: of those that begin at one volume the oldest is charged, and
-- their months do not tell which of one month it is. Of the tiers that are there the audit log knows it; the three that
-- every database begins with come first. The digest covers the new column. It is made anew only where the old one
-- agrees, so that no row that has changed is made good.
alter table tiers add column place bigint not null default 0;
update tiers set place = ordered.place from (
  select name, row_number() over (
      order by since, case name when 'starter' then 1 when 'growth' then 2 when 'scale' then 3 else 4 end,
        coalesce(first_set, 9223372036854775807), name) as place
    from (
      select name, min(from_month) as since,
        (select min(audit_id) from audit where action = 'tier.set' and subject = tiers.name) as first_set
      from tiers group by name) names) ordered
where ordered.name = tiers.name;
update tiers set digest = ('x' || substr(encode(sha256(convert_to(
  concat(name, '|', from_month, '|', min_volume_usd, '|', rate_bps, '|', per_active_user_usd, '|',
    monthly_minimum_usd, '|', place),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint
where digest = ('x' || substr(encode(sha256(convert_to(
  concat(name, '|', from_month, '|', min_volume_usd, '|', rate_bps, '|', per_active_user_usd, '|',
    monthly_minimum_usd),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;
