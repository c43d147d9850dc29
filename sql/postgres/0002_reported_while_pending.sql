-- A purchase that is reported of a pending execution is kept, and an operator may record it. Then the execution is
-- filled and was never delivered.
alter table executions drop constraint executions_check2,
  add constraint executions_delivered check (status not in ('sent', 'failed') or delivered_count > 0);
alter table late_reports drop constraint late_reports_reason_check,
  add constraint late_reports_reason_check check (reason in ('execution_cancelled', 'execution_recorded',
    'order_id_taken', 'amount_over_reservation', 'execution_pending'));

-- Why an operator accepted or dismissed one.
alter table late_reports add column decision_reason text collate "C"
  check (decision_reason is null or (decided_at is not null and length(decision_reason) between 1 and 2000));
