-- A database that was put back from a copy stands still while this row is there: nothing fires and nothing is handed
-- out. `copy` is what it was put back from, `replaced` a JSON array of the names under which what it replaced is kept.
create table standstill (
  one integer primary key check (one = 1),
  at integer not null,
  copy text not null,
  replaced text not null
) strict;
