-- A report of a purchase whose execution a restored ledger does not know is kept as well: it refers to no row, until an
-- operator records it. Only what is allowed changes, and no row: the text of the schema is all there is to write.
pragma writable_schema = on;
update sqlite_schema set sql = replace(replace(sql, 'execution_id text not null references executions', 'execution_id text not null'),
    '''execution_pending'')', '''execution_pending'', ''execution_not_found'')')
  where type = 'table' and name = 'late_reports';
pragma writable_schema = reset;

-- How many more such reports of a tenant were only counted, because enough of them are kept.
alter table tenants add column unkept_reports integer not null default 0 check (unkept_reports >= 0);
