-- All that a late fill says is recorded: when its report came, and of one that became an adjustment its fee, price and
-- time.

-- When the report came, if an operator recorded it later; null: when it was recorded. A fill without its own time was
-- made then.
alter table trades add column received_at bigint;

-- What the report of a late fill says besides its amounts; null where an operator gave the amounts, and of what was
-- accepted before this migration. The fee is a difference, as the amounts are.
alter table adjustments
  add column partner_fee_usd bigint check (partner_fee_usd is null or report_id is not null),
  add column execution_price bigint check (execution_price is null or (execution_price > 0 and report_id is not null)),
  add column executed_at bigint check ((executed_at is null) = (execution_price is null));

-- A fee may be all that changes.
alter table adjustments drop constraint adjustments_check1,
  add constraint adjustments_amounts check (usd_amount <> 0 or btc_amount <> 0 or coalesce(partner_fee_usd, 0) <> 0);
