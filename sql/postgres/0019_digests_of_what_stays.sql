-- Late reports get a digest like those of trades and adjustments; it is null in the rows that there are. The integer
-- digests of rows that change are written and read by nobody any more: their columns stay, with a default.
alter table late_reports add column content_digest text collate "C" check (length(content_digest) = 64);
alter table minimum_ends alter column digest set default 0;
alter table invoices alter column digest set default 0;
