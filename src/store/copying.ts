// What a store offers to a copy: a source that holds still, and a target that nobody can see until it is whole.

import type { Instant } from '../core/time.ts'
import type { Seal } from './seal.ts'
import type { AuditEntry, Store } from './store.ts'

/**
 * When the migrations of a file were applied, which a copy of that file records as well, wherever it has been
 * meanwhile; and when the database was begun, which takes the place of the migrations that it never had.
 */
export type FileHistory = {
  begunAt: Instant
  migrations: readonly { name: string; sha256: string; appliedAt: Instant }[]
}

/** Rows, read as often as it takes. */
export type Rows = {
  count(table: Table): Promise<number>
  /** In the order of the key. */
  blocks(table: Table): AsyncIterable<Block>
}

/** A database that holds still: all of it is read at one moment. */
export type HeldSource = Rows & {
  /** Files beside it that hold a part of it: a log, a journal. */
  playedIn: string[]
  fileHistory(): Promise<FileHistory>
  seal(): Promise<Seal | null>
  /**
   * Makes it refuse every write from the moment at which it was read, and resolves when that can no longer be lost.
   * Only for a source that was asked to hold writers.
   */
  setSeal(seal: Seal): Promise<void>
  /**
   * Resolves when the seal that it has can no longer be lost: the copy that set it may not have waited for that.
   * Nothing may be read afterwards.
   */
  keepSeal(): Promise<void>
  /** The same database, to be read through the store; null when it must not be touched. */
  store: Store | null
  /** Releases it: whatever waited for it goes on. */
  release(): Promise<void>
}

/** A database in the making. */
export type NewTarget = Rows & {
  load(table: Table, blocks: AsyncIterable<Block>): Promise<void>
  /** To be called once everything is loaded: makes what is derived from the rows, and brings everything to the disk. */
  settle(rest: { fileHistory: FileHistory; seal: Seal | null }): Promise<void>
  /** The same through the store, once it is settled. */
  openStore(): Promise<Store>
  /**
   * Records the audit entry, if there is one, and gives the database its name. Returns what had that name before and
   * was kept. Throws database_exists when the name has been taken meanwhile.
   */
  publish(audit: AuditEntry | null): Promise<{ replaced: string | null; bytes: number | null }>
  /** Removes it, unless it was published. */
  close(): Promise<void>
}

export type HoldOptions = {
  /** Keeps all writers away for as long as it is held: what is then sealed is what was read. */
  fromWriters: boolean
  /** Reads a file that must stay as it is, byte for byte. */
  untouched?: boolean
}
export type TargetOptions = {
  now: Instant
  /** What may be replaced: nothing, or whatever has the name. */
  replace: boolean
}

// Rows as lines of text, in the form in which PostgreSQL copies tables: what a copy carries, and what is hashed on both
// sides. The same rows give the same bytes, whichever store they came from.

export type Value = bigint | number | string | null

/** Whole lines of a table, each with its line break. */
export type Block = { text: string; rows: number }

const ESCAPES: Record<string, string> = {
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
}
const SPECIAL = /[\\\b\f\n\r\t\v]/
const ALL_SPECIAL = /[\\\b\f\n\r\t\v]/g
const MEANT = Object.fromEntries(Object.entries(ESCAPES).map(([meant, written]) => [written, meant]))
const NULL = '\\N'

/** The shortest decimal that reads as the same number. */
const realText = (value: number): string => (Object.is(value, -0) ? '-0' : String(value))

function fieldOf(value: Value, { kind }: Column): string {
  if (value === null) return NULL
  if (kind === 'real') return realText(Number(value))
  if (typeof value === 'string' && SPECIAL.test(value))
    return value.replaceAll(ALL_SPECIAL, (special) => ESCAPES[special] ?? special)
  return String(value)
}

/** A row as a line, without its line break. */
export function lineOf(row: readonly Value[], { columns }: Table): string {
  let line = ''
  for (let at = 0; at < columns.length; at++)
    line += (at === 0 ? '' : '\t') + fieldOf(row[at] ?? null, columns[at] as Column)
  return line
}

function valueIn(field: string, { kind }: Column): Value {
  if (field === NULL) return null
  if (kind === 'integer') return BigInt(field)
  if (kind === 'real') return Number(field)
  return field.includes('\\') ? field.replaceAll(/\\[\\bfnrtv]/g, (two) => MEANT[two] ?? two) : field
}

/** The rows of a block. */
export const rowsOf = ({ text }: Block, { columns }: Table): Value[][] =>
  linesOf(text).map((line) => line.split('\t').map((field, at) => valueIn(field, columns[at] as Column)))

/** PostgreSQL's lines with their numbers spelled our way: it writes 1e-07 where we write 1e-7. */
export function withOurNumbers(text: string, { columns }: Table): string {
  const reals = columns.flatMap(({ kind }, at) => (kind === 'real' ? [at] : []))
  if (reals.length === 0) return text
  return linesOf(text)
    .map((line) => {
      const fields = line.split('\t')
      for (const at of reals) {
        const field = fields[at] ?? NULL
        if (field !== NULL) fields[at] = realText(Number(field))
      }
      return `${fields.join('\t')}\n`
    })
    .join('')
}

const linesOf = (text: string): string[] => (text === '' ? [] : text.slice(0, -1).split('\n'))

// The tables that a copy of a database consists of, the same in both stores. What a store only counts or derives from
// them is made anew in the copy; test/copy/tables.server.test.ts compares this list with both schemas.

export type ColumnKind = 'integer' | 'text' | 'real'
type Column = { name: string; kind: ColumnKind }
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
