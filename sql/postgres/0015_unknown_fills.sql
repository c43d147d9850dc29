-- A report of a purchase whose execution a restored ledger does not know is kept as well: it refers to no row, until an
-- operator records it.
alter table late_reports drop constraint late_reports_execution_id_fkey,
  drop constraint late_reports_reason_check,
  add constraint late_reports_reason_check check (reason in ('execution_cancelled', 'execution_recorded',
    'order_id_taken', 'amount_over_reservation', 'execution_pending', 'execution_not_found'));

-- How many more such reports of a tenant were only counted, because enough of them are kept.
alter table tenants add column unkept_reports bigint not null default 0 check (unkept_reports >= 0);
