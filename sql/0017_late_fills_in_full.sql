-- All that a late fill says is recorded: when its report came, and of one that became an adjustment its fee, price and
-- time.

-- When the report came, if an operator recorded it later; null: when it was recorded. A fill without its own time was
-- made then.
alter table trades add column received_at integer;

-- What the report of a late fill says besides its amounts; null where an operator gave the amounts, and of what was
-- accepted before this migration. The fee is a difference, as the amounts are.
alter table adjustments add column partner_fee_usd integer check (partner_fee_usd is null or report_id is not null);
alter table adjustments add column execution_price integer
  check (execution_price is null or (execution_price > 0 and report_id is not null));
alter table adjustments add column executed_at integer check ((executed_at is null) = (execution_price is null));

-- A fee may be all that changes.
pragma writable_schema = on;
update sqlite_schema set sql = replace(sql, '(usd_amount <> 0 or btc_amount <> 0)',
    '(usd_amount <> 0 or btc_amount <> 0 or coalesce(partner_fee_usd, 0) <> 0)')
  where type = 'table' and name = 'adjustments';
pragma writable_schema = reset;
