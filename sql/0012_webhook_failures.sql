-- Why the last wake-up that was not delivered was not, and when: for the partner and for the operator.
alter table webhooks add column last_failed_at integer;
alter table webhooks add column last_failure_reason text
  check ((last_failure_reason is null) = (last_failed_at is null) and length(last_failure_reason) between 1 and 500);
