-- Where this database has moved to. What makes it refuse writes are triggers that come and go with the row: a database
-- that was not sealed pays for none of them (docs/decisions/0064-a-copy-is-verified-and-its-source-sealed.md).
create table sealed (
  one integer primary key check (one = 1),
  at integer not null,
  moved_to text not null
) strict;
