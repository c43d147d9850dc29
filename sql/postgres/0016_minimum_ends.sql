-- Until which month a partner is charged the minimum of its tier: said in from_month, it holds until it is said anew. Null:
-- without an end, as for a partner that has no row.
create table minimum_ends (
  partner_slug text collate "C" not null references partners,
  from_month text collate "C" not null,
  last_month text collate "C",
  digest bigint not null,
  primary key (partner_slug, from_month)
);
