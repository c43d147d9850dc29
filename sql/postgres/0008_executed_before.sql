-- Fills that were made more than ten minutes before they were recorded: among them are all that were made so long before
-- their execution was there (src/core/alarm-thresholds.ts).
create index trades_executed_before on trades (recorded_at, execution_id)
  where executed_at < recorded_at - 600000;
