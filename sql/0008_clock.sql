-- One row while the clock is in doubt: what it showed at the last pass, and what the answers of a price feed told.
create table clock_disputes (
  one integer primary key check (one = 1),
  clock_at integer not null,
  witness_at integer not null,
  source text not null
) strict;
