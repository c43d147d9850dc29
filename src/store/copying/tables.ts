// The tables that a copy of a database consists of, the same in both stores. What a store only counts or derives from
// them is made anew in the copy; test/copy/tables.server.test.ts compares this list with both schemas.

export type ColumnKind = 'integer' | 'text' | 'real'
export type Column = { name: string; kind: ColumnKind }
export type Table = { name: string; key: readonly string[]; columns: readonly Column[] }

/** `columns` names them with their kinds, which are integers where nothing is said. */
function table(name: string, key: string, columns: string): Table {
  const kinds: Record<string, ColumnKind> = { text: 'text', real: 'real' }
  return {
    name,
    key: key.split(' '),
    columns: columns.split(/\s+/).map((column) => {
      const [name = '', kind = ''] = column.split(':')
      return { name, kind: kinds[kind] ?? 'integer' }
    }),
  }
}

/** What a row refers to comes before it. */
export const TABLES: readonly Table[] = [
  table(
    'partners',
    'partner_slug',
    'partner_slug:text name:text status:text min_tranche held created_at updated_at digest',
  ),
  table('tenants', 'tenant_id', 'tenant_id partner_slug:text environment:text digest'),
  table(
    'api_keys',
    'key_id',
    `key_id:text tenant_id key_sha256:text prefix:text last_four:text label:text created_at expires_at revoked_at
     last_used_at digest`,
  ),
  table(
    'users',
    'user_id',
    `user_id tenant_id partner_user_id:text email:text auth_provider:text consent_version:text consent_timestamp
     status:text created_at updated_at erased_at digest`,
  ),
  table(
    'consents',
    'consent_id',
    'consent_id user_id consent_version:text consent_timestamp received_at digest',
  ),
  table(
    'plans',
    'plan_id',
    `plan_id tenant_id user_id partner_plan_id:text amount_usd frequency:text smart_timing_enabled start_date
     status:text created_at updated_at digest`,
  ),
  table(
    'windows',
    'window_id',
    `window_id plan_id window_start window_end budget reserved spent released excess closed_at close_reason:text digest`,
  ),
  table(
    'schedules',
    'plan_id',
    `plan_id window_id awake next_run_at limit_price clock_at window_start window_end budget fireable floor
     tranche_index slots units_per_slot units_fired slot reference_price half_width:real extras_left next_extra_at digest`,
  ),
  table(
    'executions',
    'execution_id',
    `execution_id:text tenant_id plan_id window_id window_start tranche_index amount_usd trigger_kind:text slot units
     price reference_price reservation_price created_at status:text delivered_count lease_expires_at cancelled_at
     cancel_reason:text unkept_reports digest`,
  ),
  table(
    'trades',
    'execution_id',
    `execution_id:text tenant_id plan_id user_id partner_order_id:text status:text usd_amount btc_amount
     execution_price partner_fee_usd executed_at failure_reason:text recorded_at received_at digest:text`,
  ),
  table(
    'late_reports',
    'report_id',
    `report_id execution_id:text tenant_id fingerprint:text partner_order_id:text status:text usd_amount btc_amount
     execution_price partner_fee_usd executed_at failure_reason:text received_at accepted_at reason:text decided_at
     decision_reason:text digest`,
  ),
  table(
    'adjustments',
    'adjustment_id',
    `adjustment_id execution_id:text tenant_id plan_id user_id usd_amount btc_amount reason:text recorded_at
     digest:text report_id partner_order_id:text partner_fee_usd execution_price executed_at`,
  ),
  table(
    'webhooks',
    'tenant_id',
    `tenant_id url:text secret:text status:text created_at updated_at last_delivered_at last_status_code
     consecutive_failures last_failed_at last_failure_reason:text digest`,
  ),
  table(
    'webhook_events',
    'tick_id tenant_id',
    'tick_id tenant_id count earliest_execution_id:text created_at claimed_at',
  ),
  table('prices', 'at', 'at price source:text'),
  table('price_imports', 'at', 'at price'),
  table('volatility', 'one', 'one variance:real hours:real last_price last_at'),
  table(
    'ticks',
    'tick_id',
    `tick_id at price plans_evaluated executions_created windows_rolled finished_at feed:text feed_failure:text
     database_bytes`,
  ),
  table('clock_disputes', 'one', 'one clock_at witness_at source:text'),
  table(
    'tiers',
    'name from_month',
    'name:text from_month:text min_volume_usd rate_bps per_active_user_usd monthly_minimum_usd digest place',
  ),
  table(
    'tier_overrides',
    'partner_slug from_month',
    'partner_slug:text from_month:text tier_name:text digest',
  ),
  table('closed_months', 'month', 'month:text period_end closed_at digest'),
  table('reported_until', 'one', 'one at digest'),
  table('sandboxes', 'tenant_id', 'tenant_id environment:text offset_ms reported_until resetting used_until'),
  table('used_before_reset', 'tenant_id partner_plan_id', 'tenant_id partner_plan_id:text window_start'),
  table('stops', 'user_id', 'user_id tenant_id plan_id plans_paused executions_cancelled begun_at ended_at'),
  table('polls', 'tenant_id', 'tenant_id polled_at'),
  table('audit', 'audit_id', 'audit_id at os_user:text action:text subject:text detail:text digest'),
]

/** All rows of a table in the order of its key, as either store is asked for them. */
export const selectAll = ({ name, key, columns }: Table): string =>
  `select ${columns.map((column) => column.name).join(', ')} from ${name} order by ${key.join(', ')}`
