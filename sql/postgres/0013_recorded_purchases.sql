-- An operator may record a purchase that the ledger does not know. It has an execution as every purchase has, which
-- nothing fired.
alter table executions drop constraint executions_trigger_kind_check,
  add constraint executions_trigger_kind_check check (trigger_kind in ('slot_start', 'limit', 'deadline', 'catch_up',
    'failsafe', 'clock', 'recorded'));
