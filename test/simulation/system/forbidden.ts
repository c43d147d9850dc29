// What the data of every store have to refuse, whatever the program does.

/** An id that a store makes itself, when it is left out. */
export const MADE = Symbol('made by the store')
/** An id of an execution that no other has. */
export const NEW_EXECUTION_ID = Symbol('a new id of an execution')

/** An execution of the same tenant that has no trade. */
const ANOTHER =
  '(select execution_id from executions e where e.tenant_id = trades.tenant_id and not exists (select 1 from trades t where t.execution_id = e.execution_id) limit 1)'

export type Copy = {
  what: string
  table: string
  /** What differs in the copy: SQL, or what the store says. */
  differs: Record<string, string | typeof MADE | typeof NEW_EXECUTION_ID>
}

/** Copies of rows. */
export const COPIES: Copy[] = [
  { what: 'an idempotency key twice', table: 'executions', differs: { execution_id: NEW_EXECUTION_ID } },
  { what: 'an order twice in a tenant', table: 'trades', differs: { execution_id: ANOTHER } },
  { what: 'a second current window of a plan', table: 'windows', differs: { window_id: MADE } },
  { what: 'a plan id twice in a tenant', table: 'plans', differs: { plan_id: MADE } },
  { what: 'a user id twice in a tenant', table: 'users', differs: { user_id: MADE } },
  { what: 'a key twice', table: 'api_keys', differs: { key_id: "'copy'" } },
  { what: 'a report kept twice', table: 'late_reports', differs: { report_id: MADE } },
]

/** The rows that are worth copying. */
export const sourceOf = (table: string): string =>
  `from ${table} ${table === 'windows' ? 'where closed_at is null' : ''} limit 1`

export const CHANGES: { what: string; sql: string }[] = [
  { what: 'a window above its budget', sql: 'update windows set spent = budget + 1' },
  { what: 'a trade of nothing', sql: "update trades set usd_amount = 0 where status = 'filled'" },
  { what: 'an audit entry changed', sql: "update audit set os_user = 'x'" },
  { what: 'an audit entry removed', sql: 'delete from audit' },
  { what: 'a consent changed', sql: "update consents set consent_version = 'x'" },
  {
    what: 'an execution removed that has a trade',
    sql: 'delete from executions where execution_id in (select execution_id from trades)',
  },
]
