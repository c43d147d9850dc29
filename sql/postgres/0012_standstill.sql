-- A database that was put back from a copy stands still while this row is there: nothing fires and nothing is handed
-- out. `copy` is what it was put back from, `replaced` a JSON array of the names under which what it replaced is kept.
create table standstill (
  one bigint primary key check (one = 1),
  at bigint not null,
  copy text collate "C" not null,
  replaced text collate "C" not null
);
-- What was erased is remembered beside the database, so that a database put back from a copy does not bring it back. A
-- schema of another name stays when this one gives way. A row says nothing without the database (src/erasures.ts).
create schema if not exists tranche_erasures;
create table if not exists tranche_erasures.erasures (
  sha256 text collate "C" not null,
  at bigint not null,
  primary key (sha256, at)
);
