-- Late reports get a digest like those of trades and adjustments; it is null in the rows that there are. The integer
-- digests of rows that change are written and read by nobody any more: their columns stay, with a default.
alter table late_reports add column content_digest text check (length(content_digest) = 64);
pragma writable_schema = on;
update sqlite_schema set sql = replace(sql, 'digest integer not null,', 'digest integer not null default 0,')
  where type = 'table' and name in ('minimum_ends', 'invoices');
pragma writable_schema = reset;
