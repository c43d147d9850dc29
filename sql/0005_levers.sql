-- What an operator can reach for when something is wrong.

-- A held partner's plans fire nothing; its polls, confirmations and billing go on.
alter table partners add column held integer not null default 0 check (held in (0, 1));

-- Why an operator ended an execution that nobody was ever going to confirm; null when nobody did.
alter table executions add column cancel_reason text
  check (cancel_reason is null or (cancelled_at is not null and length(cancel_reason) between 1 and 2000));

-- A fill that was recorded wrongly, set right: the differences to what stood before, in the month in which it was set
-- right, because a month that is over never changes. Rows are added, never changed.
create table adjustments (
  adjustment_id integer primary key,
  execution_id text not null references trades,
  tenant_id integer not null references tenants,
  plan_id integer not null references plans,
  user_id integer not null references users,
  usd_amount integer not null,
  btc_amount integer not null,
  reason text not null check (length(reason) between 1 and 2000),
  recorded_at integer not null,
  -- SHA-256 of the row's content, as for trades.
  digest text not null check (length(digest) = 64),
  check (usd_amount <> 0 or btc_amount <> 0)
) strict;
-- The order of an export, beside that of the trades.
create index adjustments_by_recorded on adjustments (recorded_at, execution_id, adjustment_id);
create index adjustments_by_tenant on adjustments (tenant_id, recorded_at);
create index adjustments_by_execution on adjustments (execution_id, adjustment_id);

create trigger adjustments_keep before update on adjustments
  begin select raise(abort, 'adjustments are append-only'); end;
create trigger adjustments_stay before delete on adjustments
  begin select raise(abort, 'adjustments are append-only'); end;

-- When the e-mail and provider of a user were last erased on request; the ids, consents and ledger stay.
alter table users add column erased_at integer;
