-- The ground: partners and keys, users and plans, windows and their ledger, executions and trades, the scheduler.
--
-- Money, bitcoin and prices are integers of 1e-8; instants are integer milliseconds of UTC; both are made by the
-- program, never by SQL. A tenant is one partner in one environment: every partner query carries its tenant_id.

create table partners (
  partner_slug text primary key check (length(partner_slug) between 2 and 63),
  name text not null check (length(name) between 1 and 255),
  status text not null check (status in ('active', 'disabled')),
  min_tranche integer not null check (min_tranche >= 1000000),
  created_at integer not null,
  updated_at integer not null
) strict, without rowid;

create table tenants (
  tenant_id integer primary key,
  partner_slug text not null references partners,
  environment text not null check (environment in ('test', 'live')),
  unique (partner_slug, environment)
) strict;

create table api_keys (
  key_id text primary key,
  tenant_id integer not null references tenants,
  key_sha256 text not null unique check (length(key_sha256) = 64),
  prefix text not null check (prefix in ('sse_test_', 'sse_live_')),
  last_four text not null check (length(last_four) = 4),
  label text,
  created_at integer not null,
  expires_at integer,
  revoked_at integer,
  last_used_at integer
) strict, without rowid;
create index api_keys_by_tenant on api_keys (tenant_id, created_at);

create table users (
  user_id integer primary key,
  tenant_id integer not null references tenants,
  partner_user_id text not null,
  email text,
  auth_provider text,
  consent_version text not null,
  consent_timestamp integer not null,
  status text not null check (status in ('linked', 'disabled')),
  created_at integer not null,
  updated_at integer not null,
  unique (tenant_id, partner_user_id)
) strict;

-- Every consent a user ever gave, in order. Evidence: rows are added, never changed.
create table consents (
  consent_id integer primary key,
  user_id integer not null references users,
  consent_version text not null,
  consent_timestamp integer not null,
  received_at integer not null,
  unique (user_id, consent_version, consent_timestamp)
) strict;

create table plans (
  plan_id integer primary key,
  tenant_id integer not null references tenants,
  user_id integer not null references users,
  partner_plan_id text not null,
  amount_usd integer not null check (amount_usd between 100000000 and 100000000000000),
  frequency text not null check (frequency in ('daily', 'weekly', 'bi-weekly')),
  smart_timing_enabled integer not null check (smart_timing_enabled in (0, 1)),
  start_date integer not null,
  status text not null check (status in ('active', 'paused', 'cancelled')),
  created_at integer not null,
  updated_at integer not null,
  unique (tenant_id, partner_plan_id)
) strict;
create index plans_by_user on plans (user_id);

create table windows (
  window_id integer primary key,
  plan_id integer not null references plans,
  window_start integer not null,
  window_end integer not null check (window_end > window_start),
  budget integer not null check (budget > 0),
  reserved integer not null default 0 check (reserved >= 0),
  spent integer not null default 0 check (spent >= 0),
  released integer not null default 0 check (released >= 0),
  closed_at integer,
  close_reason text check (close_reason in ('ended', 'reset', 'cancelled')),
  check ((closed_at is null) = (close_reason is null)),
  check (reserved + spent + released <= budget),
  check (case when closed_at is null then released = 0 else reserved + spent + released = budget end)
) strict;
create unique index windows_current on windows (plan_id) where closed_at is null;
create index windows_by_plan on windows (plan_id, window_start);
create index windows_unspent on windows (closed_at) where close_reason = 'ended' and released > 0;

-- One narrow row for each current window: all that a scheduler pass reads and writes of a plan that waits.
-- awake is 1 when the plan is active, its smart timing on, and its partner active.
create table schedules (
  plan_id integer primary key references plans,
  window_id integer not null references windows,
  awake integer not null check (awake in (0, 1)),
  next_run_at integer not null,
  limit_price integer,
  clock_at integer,
  window_start integer not null,
  window_end integer not null,
  budget integer not null,
  fireable integer not null check (fireable >= 0),
  floor integer not null,
  tranche_index integer not null,
  slots integer,
  units_per_slot integer,
  units_fired integer,
  slot integer not null,
  reference_price integer,
  half_width real,
  extras_left integer not null,
  next_extra_at integer not null,
  check ((slots is null) = (units_per_slot is null) and (slots is null) = (units_fired is null)),
  check ((reference_price is null) = (half_width is null))
) strict;
create index schedules_by_next_run on schedules (next_run_at) where awake = 1;
create index schedules_by_limit on schedules (limit_price) where awake = 1 and limit_price is not null;
create index schedules_by_clock on schedules (clock_at) where awake = 1 and clock_at is not null;
create index schedules_by_end on schedules (window_end) where awake = 1 and fireable >= floor;
create index schedules_by_window on schedules (window_id);

create table executions (
  execution_id text primary key check (length(execution_id) = 37),
  tenant_id integer not null references tenants,
  plan_id integer not null references plans,
  window_id integer not null references windows,
  window_start integer not null,
  tranche_index integer not null check (tranche_index >= 0),
  amount_usd integer not null check (amount_usd > 0 and amount_usd % 1000000 = 0),
  trigger_kind text not null
    check (trigger_kind in ('slot_start', 'limit', 'deadline', 'catch_up', 'failsafe', 'clock')),
  slot integer not null,
  units integer not null,
  price integer,
  reference_price integer,
  reservation_price integer,
  created_at integer not null,
  status text not null check (status in ('pending', 'sent', 'filled', 'partial', 'failed', 'cancelled')),
  delivered_count integer not null default 0,
  lease_expires_at integer,
  cancelled_at integer,
  -- What the idempotency key is built from: never twice.
  unique (plan_id, window_start, tranche_index),
  check (status <> 'pending' or (delivered_count = 0 and lease_expires_at is null)),
  check (status not in ('sent', 'filled', 'partial', 'failed') or delivered_count > 0),
  check (delivered_count = 0 or lease_expires_at is not null),
  check (cancelled_at is null or status in ('cancelled', 'filled', 'partial'))
) strict, without rowid;
create index executions_open on executions (tenant_id, created_at, execution_id, lease_expires_at)
  where status in ('pending', 'sent');
create index executions_by_tenant on executions (tenant_id, created_at);

-- The accepted confirmation of an execution. Rows are added, never changed.
create table trades (
  execution_id text primary key references executions,
  tenant_id integer not null references tenants,
  plan_id integer not null references plans,
  user_id integer not null references users,
  partner_order_id text not null,
  status text not null check (status in ('filled', 'partial', 'failed', 'cancelled')),
  usd_amount integer check (usd_amount > 0),
  btc_amount integer check (btc_amount > 0),
  execution_price integer check (execution_price > 0),
  partner_fee_usd integer check (partner_fee_usd >= 0),
  -- As the partner sent it; null stands for recorded_at.
  executed_at integer,
  failure_reason text,
  recorded_at integer not null,
  -- SHA-256 of the row's content as it was recorded: tells which row was changed behind the program's back.
  digest text not null check (length(digest) = 64),
  unique (tenant_id, partner_order_id),
  check ((status in ('filled', 'partial')) = (usd_amount is not null)),
  check ((usd_amount is null) = (btc_amount is null) and (usd_amount is null) = (execution_price is null)),
  check (usd_amount is not null or partner_fee_usd is null),
  check (usd_amount is null or failure_reason is null)
) strict, without rowid;
create index trades_by_recorded on trades (recorded_at, execution_id);
create index trades_by_tenant on trades (tenant_id, recorded_at, execution_id);

-- Reports on executions that had been cancelled by then: an operator decides. Rows are added; only a decision is noted.
create table late_reports (
  report_id integer primary key,
  execution_id text not null references executions,
  tenant_id integer not null references tenants,
  fingerprint text not null,
  partner_order_id text not null,
  status text not null check (status in ('filled', 'partial', 'failed', 'cancelled')),
  usd_amount integer,
  btc_amount integer,
  execution_price integer,
  partner_fee_usd integer,
  executed_at integer,
  failure_reason text,
  received_at integer not null,
  accepted_at integer,
  unique (execution_id, fingerprint)
) strict;

create table webhooks (
  tenant_id integer primary key references tenants,
  url text not null check (length(url) <= 2083),
  secret text not null,
  status text not null check (status in ('active', 'paused')),
  created_at integer not null,
  updated_at integer not null,
  last_delivered_at integer,
  last_status_code integer,
  consecutive_failures integer not null default 0 check (consecutive_failures >= 0)
) strict;

create table prices (
  at integer primary key,
  price integer not null check (price > 0),
  source text not null
) strict;

-- The one row of volatility state that every pass shares.
create table volatility (
  one integer primary key check (one = 1),
  variance real not null,
  hours real not null,
  last_price integer,
  last_at integer
) strict;

create table ticks (
  tick_id integer primary key,
  at integer not null,
  price integer,
  plans_evaluated integer not null default 0,
  executions_created integer not null default 0,
  windows_rolled integer not null default 0,
  finished_at integer
) strict;

-- Pricing tiers and overrides, each version in force from its month (YYYY-MM) until the next.
create table tiers (
  name text not null,
  from_month text not null,
  min_volume_usd integer not null check (min_volume_usd >= 0),
  rate_bps integer not null check (rate_bps between 0 and 10000),
  per_active_user_usd integer not null check (per_active_user_usd >= 0),
  monthly_minimum_usd integer not null check (monthly_minimum_usd >= 0),
  primary key (name, from_month)
) strict, without rowid;

create table tier_overrides (
  partner_slug text not null references partners,
  from_month text not null,
  tier_name text,
  primary key (partner_slug, from_month)
) strict, without rowid;

insert into tiers values
  ('starter', '1970-01', 0, 50, 0, 0),
  ('growth', '1970-01', 100000000000000, 35, 0, 0),
  ('scale', '1970-01', 1000000000000000, 20, 0, 0);

-- What operators changed. Rows are added, never changed.
create table audit (
  audit_id integer primary key,
  at integer not null,
  os_user text not null,
  action text not null,
  subject text not null,
  detail text not null check (json_valid(detail))
) strict;

create trigger consents_keep before update on consents begin select raise(abort, 'consents are append-only'); end;
create trigger consents_stay before delete on consents begin select raise(abort, 'consents are append-only'); end;
create trigger audit_keep before update on audit begin select raise(abort, 'the audit log is append-only'); end;
create trigger audit_stay before delete on audit begin select raise(abort, 'the audit log is append-only'); end;
