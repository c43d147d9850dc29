-- Until which month a partner is charged the minimum of its tier: said in from_month, it holds until it is said anew. Null:
-- without an end, as for a partner that has no row.
create table minimum_ends (
  partner_slug text not null references partners,
  from_month text not null,
  last_month text,
  digest integer not null,
  primary key (partner_slug, from_month)
) strict, without rowid;
