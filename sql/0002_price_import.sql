-- Where an import gathers its rows before they all become prices at once, or none of them.
create table price_imports (
  at integer primary key,
  price integer not null check (price > 0)
) strict;
