-- A purchase that is reported of a pending execution is kept, and an operator may record it. Then the execution is
-- filled and was never delivered. Only what is allowed changes, and no row: the text of the schema is all there is to
-- write.
pragma writable_schema = on;
update sqlite_schema set sql = replace(sql,
    '(status not in (''sent'', ''filled'', ''partial'', ''failed'') or delivered_count > 0)',
    '(status not in (''sent'', ''failed'') or delivered_count > 0)')
  where type = 'table' and name = 'executions';
update sqlite_schema set sql = replace(sql, '''amount_over_reservation'')', '''amount_over_reservation'', ''execution_pending'')')
  where type = 'table' and name = 'late_reports';
pragma writable_schema = reset;

-- Why an operator accepted or dismissed one.
alter table late_reports add column decision_reason text
  check (decision_reason is null or (decided_at is not null and length(decision_reason) between 1 and 2000));
