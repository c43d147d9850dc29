-- A digest beside every row that decides money, ownership or access, so that one whose bytes changed on the disk is
-- seen before anything is done on its word. It is the first 48 bits of the SHA-256 of the columns below; the program
-- makes it where it writes the row (src/store/digests.ts), and makes it here for the rows that there are.

alter table consents disable trigger consents_keep;
alter table audit disable trigger audit_keep;

alter table partners add column digest bigint not null default 0;
update partners set digest = ('x' || substr(encode(sha256(convert_to(
  concat(partner_slug, '|', name, '|', status, '|', min_tranche, '|', held, '|', created_at),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table tenants add column digest bigint not null default 0;
update tenants set digest = ('x' || substr(encode(sha256(convert_to(
  concat(partner_slug, '|', environment),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table api_keys add column digest bigint not null default 0;
update api_keys set digest = ('x' || substr(encode(sha256(convert_to(
  concat(key_id, '|', tenant_id, '|', key_sha256, '|', prefix, '|', last_four, '|', label, '|', created_at, '|',
    expires_at, '|', revoked_at),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table users add column digest bigint not null default 0;
update users set digest = ('x' || substr(encode(sha256(convert_to(
  concat(tenant_id, '|', partner_user_id, '|', email, '|', auth_provider, '|', consent_version, '|',
    consent_timestamp, '|', status, '|', created_at, '|', erased_at),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table consents add column digest bigint not null default 0;
update consents set digest = ('x' || substr(encode(sha256(convert_to(
  concat(user_id, '|', consent_version, '|', consent_timestamp, '|', received_at),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table plans add column digest bigint not null default 0;
update plans set digest = ('x' || substr(encode(sha256(convert_to(
  concat(tenant_id, '|', user_id, '|', partner_plan_id, '|', amount_usd, '|', frequency, '|',
    smart_timing_enabled, '|', start_date, '|', created_at),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table windows add column digest bigint not null default 0;
update windows set digest = ('x' || substr(encode(sha256(convert_to(
  concat(plan_id, '|', window_start, '|', window_end, '|', budget),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table schedules add column digest bigint not null default 0;
update schedules set digest = ('x' || substr(encode(sha256(convert_to(
  concat(plan_id, '|', window_id, '|', next_run_at, '|', limit_price, '|', clock_at, '|', window_start, '|',
    window_end, '|', budget, '|', tranche_index, '|', slots, '|', units_per_slot, '|', units_fired, '|', slot,
    '|', reference_price, '|', cast(floor(half_width * 1099511627776) as bigint), '|', extras_left, '|',
    next_extra_at),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table executions add column digest bigint not null default 0;
update executions set digest = ('x' || substr(encode(sha256(convert_to(
  concat(execution_id, '|', tenant_id, '|', plan_id, '|', window_id, '|', window_start, '|', tranche_index, '|',
    amount_usd, '|', trigger_kind, '|', slot, '|', units, '|', price, '|', reference_price, '|',
    reservation_price, '|', created_at),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table late_reports add column digest bigint not null default 0;
update late_reports set digest = ('x' || substr(encode(sha256(convert_to(
  concat(execution_id, '|', tenant_id, '|', fingerprint, '|', partner_order_id, '|', status, '|', usd_amount,
    '|', btc_amount, '|', execution_price, '|', partner_fee_usd, '|', executed_at, '|', reason, '|',
    received_at),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table webhooks add column digest bigint not null default 0;
update webhooks set digest = ('x' || substr(encode(sha256(convert_to(
  concat(tenant_id, '|', url, '|', secret, '|', created_at),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table tiers add column digest bigint not null default 0;
update tiers set digest = ('x' || substr(encode(sha256(convert_to(
  concat(name, '|', from_month, '|', min_volume_usd, '|', rate_bps, '|', per_active_user_usd, '|',
    monthly_minimum_usd),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table tier_overrides add column digest bigint not null default 0;
update tier_overrides set digest = ('x' || substr(encode(sha256(convert_to(
  concat(partner_slug, '|', from_month, '|', tier_name),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table closed_months add column digest bigint not null default 0;
update closed_months set digest = ('x' || substr(encode(sha256(convert_to(
  concat(month, '|', period_end, '|', closed_at),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table reported_until add column digest bigint not null default 0;
update reported_until set digest = ('x' || substr(encode(sha256(convert_to(
  concat(at),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table audit add column digest bigint not null default 0;
update audit set digest = ('x' || substr(encode(sha256(convert_to(
  concat(at, '|', os_user, '|', action, '|', subject, '|', detail),
  'UTF8')), 'hex'), 1, 12))::bit(48)::bigint;

alter table consents enable trigger consents_keep;
alter table audit enable trigger audit_keep;
