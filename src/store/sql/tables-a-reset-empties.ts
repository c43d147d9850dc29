// The tables that a reset of a test environment empties, those that refer to others first. The tenant's keys, webhook
// and clock stay.

export const WIPED: readonly (readonly [table: string, rows: string])[] = [
  ['webhook_events', 'tenant_id = :tenant'],
  ['adjustments', 'tenant_id = :tenant'],
  ['late_reports', 'tenant_id = :tenant'],
  ['trades', 'tenant_id = :tenant'],
  ['executions', 'tenant_id = :tenant'],
  ['schedules', 'plan_id in (select plan_id from plans where tenant_id = :tenant)'],
  ['windows', 'plan_id in (select plan_id from plans where tenant_id = :tenant)'],
  ['stops', 'tenant_id = :tenant'],
  ['plans', 'tenant_id = :tenant'],
  ['consents', 'user_id in (select user_id from users where tenant_id = :tenant)'],
  ['users', 'tenant_id = :tenant'],
]
