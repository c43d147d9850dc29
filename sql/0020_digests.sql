-- A digest beside every row that decides money, ownership or access, so that one whose bytes changed on the disk is
-- seen before anything is done on its word. It is the first 48 bits of the SHA-256 of the columns below; the program
-- makes it where it writes the row (src/store/digests.ts), and makes it here for the rows that there are.

drop trigger consents_keep;
drop trigger audit_keep;

alter table partners add column digest integer not null default 0;
update partners set digest = row_digest(
  concat(partner_slug, '|', name, '|', status, '|', min_tranche, '|', held, '|', created_at));

alter table tenants add column digest integer not null default 0;
update tenants set digest = row_digest(
  concat(partner_slug, '|', environment));

alter table api_keys add column digest integer not null default 0;
update api_keys set digest = row_digest(
  concat(key_id, '|', tenant_id, '|', key_sha256, '|', prefix, '|', last_four, '|', label, '|', created_at, '|',
    expires_at, '|', revoked_at));

alter table users add column digest integer not null default 0;
update users set digest = row_digest(
  concat(tenant_id, '|', partner_user_id, '|', email, '|', auth_provider, '|', consent_version, '|',
    consent_timestamp, '|', status, '|', created_at, '|', erased_at));

alter table consents add column digest integer not null default 0;
update consents set digest = row_digest(
  concat(user_id, '|', consent_version, '|', consent_timestamp, '|', received_at));

alter table plans add column digest integer not null default 0;
update plans set digest = row_digest(
  concat(tenant_id, '|', user_id, '|', partner_plan_id, '|', amount_usd, '|', frequency, '|',
    smart_timing_enabled, '|', start_date, '|', created_at));

alter table windows add column digest integer not null default 0;
update windows set digest = row_digest(
  concat(plan_id, '|', window_start, '|', window_end, '|', budget));

alter table schedules add column digest integer not null default 0;
update schedules set digest = row_digest(
  concat(plan_id, '|', window_id, '|', next_run_at, '|', limit_price, '|', clock_at, '|', window_start, '|',
    window_end, '|', budget, '|', tranche_index, '|', slots, '|', units_per_slot, '|', units_fired, '|', slot,
    '|', reference_price, '|', cast(floor(half_width * 1099511627776) as bigint), '|', extras_left, '|',
    next_extra_at));

alter table executions add column digest integer not null default 0;
update executions set digest = row_digest(
  concat(execution_id, '|', tenant_id, '|', plan_id, '|', window_id, '|', window_start, '|', tranche_index, '|',
    amount_usd, '|', trigger_kind, '|', slot, '|', units, '|', price, '|', reference_price, '|',
    reservation_price, '|', created_at));

alter table late_reports add column digest integer not null default 0;
update late_reports set digest = row_digest(
  concat(execution_id, '|', tenant_id, '|', fingerprint, '|', partner_order_id, '|', status, '|', usd_amount,
    '|', btc_amount, '|', execution_price, '|', partner_fee_usd, '|', executed_at, '|', reason, '|',
    received_at));

alter table webhooks add column digest integer not null default 0;
update webhooks set digest = row_digest(
  concat(tenant_id, '|', url, '|', secret, '|', created_at));

alter table tiers add column digest integer not null default 0;
update tiers set digest = row_digest(
  concat(name, '|', from_month, '|', min_volume_usd, '|', rate_bps, '|', per_active_user_usd, '|',
    monthly_minimum_usd));

alter table tier_overrides add column digest integer not null default 0;
update tier_overrides set digest = row_digest(
  concat(partner_slug, '|', from_month, '|', tier_name));

alter table closed_months add column digest integer not null default 0;
update closed_months set digest = row_digest(
  concat(month, '|', period_end, '|', closed_at));

alter table reported_until add column digest integer not null default 0;
update reported_until set digest = row_digest(
  concat(at));

alter table audit add column digest integer not null default 0;
update audit set digest = row_digest(
  concat(at, '|', os_user, '|', action, '|', subject, '|', detail));

create trigger consents_keep before update on consents begin select raise(abort, 'consents are append-only'); end;
create trigger audit_keep before update on audit begin select raise(abort, 'the audit log is append-only'); end;
