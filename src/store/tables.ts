// The tables: each column is described here once, and nowhere else but in the migrations. The description gives the
// type of a row, the columns of an insert and of a copy, the content of a digest, and the arrays in which a server
// takes many rows. test/copy/tables.server.test.ts compares it with both schemas.

import type { Report, ReportColumn } from '../core/confirmation.ts'
import type { ExecutionId, ExecutionStatus, RECORDED, Trigger } from '../core/execution.ts'
import type { Tier } from '../core/fees.ts'
import type { JobResult } from '../core/findings.ts'
import type { FrozenKind } from '../core/frozen.ts'
import type { Btc, Price, Usd } from '../core/money.ts'
import type { Environment, PartnerStatus } from '../core/partner.ts'
import type { PlanStatus } from '../core/plan.ts'
import type { Instant } from '../core/time.ts'
import type { UserStatus } from '../core/user.ts'
import type { Webhook } from '../core/webhook.ts'
import type { CloseReason, Frequency } from '../core/window.ts'
import { type Dialect, type Kinds, type Query, query } from './statement.ts'

export type ColumnKind = Kinds[string]

/** `Row` is the type that a store reads, `Value` the type that is written. Both are only for the compiler. */
export type Column<Row = unknown, Value = unknown, IsMade extends boolean = boolean> = {
  readonly kind: ColumnKind
  readonly isNullable: boolean
  /** Whether an insert leaves the column to the database: it has a default, may be null, or is numbered. */
  readonly isMade: IsMade
  /** Whether it contains personal data, which is erased with its user. */
  readonly isPersonal: boolean
  readonly row?: Row
  readonly value?: Value
}
type Columns = Readonly<Record<string, Column>>
type Given<R, V> = Column<R, V, false>

const column = <R, V>(kind: ColumnKind): Given<R, V> => ({
  kind,
  isNullable: false,
  isMade: false,
  isPersonal: false,
})
const text = <T extends string = string>() => column<string, T>('text')
const id = () => column<bigint, number | bigint>('integer')
const count = () => column<bigint, number>('integer')
const flag = () => column<bigint, 0 | 1>('integer')
const instant = () => column<bigint, Instant>('integer')
const usd = () => column<bigint, Usd>('integer')
const btc = () => column<bigint, Btc>('integer')
const price = () => column<bigint, Price>('integer')
const real = () => column<number, number>('real')
/** The 1 that is the key of a table with one row. */
const one = () => column<bigint, 1>('integer')

const orNull = <R, V, M extends boolean>(of: Column<R, V, M>) =>
  ({ ...of, isNullable: true }) as Column<R | null, V | null, M>
const made = <R, V>(of: Given<R, V>) => ({ ...of, isMade: true }) as Column<R, V, true>
const numbered = () => made(id())
/** Personal data of a user. Erasing the user sets it to null, in every row of that user. */
const personal = <R, V>(of: Column<R | null, V | null, false>): Column<R | null, V | null, false> => ({
  ...of,
  isPersonal: true,
})

type Described<C extends Columns> = {
  readonly key: readonly string[]
  /** In the order of a copy. */
  readonly shape: C
}

const table = <C extends Columns>(key: string, shape: C): Described<C> => ({ key: key.split(' '), shape })

/** A partner's report of an execution, in time or late. */
const REPORTED = {
  partner_order_id: text(),
  status: text<Report['status']>(),
  usd_amount: orNull(usd()),
  btc_amount: orNull(btc()),
  execution_price: orNull(price()),
  partner_fee_usd: orNull(usd()),
  executed_at: orNull(instant()),
  failure_reason: orNull(text()),
} satisfies Record<ReportColumn, Column>
export const REPORTED_COLUMNS = Object.keys(REPORTED) as (keyof typeof REPORTED)[]

/** In the order of a copy, the same in both stores: a row comes after those it refers to. Derived rows are left out. */
const tables = {
  partners: table('partner_slug', {
    partner_slug: text(),
    name: text(),
    status: text<PartnerStatus>(),
    min_tranche: usd(),
    held: flag(),
    created_at: instant(),
    updated_at: instant(),
  }),

  tenants: table('tenant_id', {
    tenant_id: numbered(),
    partner_slug: text(),
    environment: text<Environment>(),
    unkept_reports: made(count()),
  }),

  api_keys: table('key_id', {
    key_id: text(),
    tenant_id: id(),
    key_sha256: text(),
    prefix: text(),
    last_four: text(),
    label: orNull(text()),
    created_at: instant(),
    expires_at: orNull(instant()),
    revoked_at: made(orNull(instant())),
    last_used_at: made(orNull(instant())),
  }),

  users: table('user_id', {
    user_id: numbered(),
    tenant_id: id(),
    partner_user_id: text(),
    email: personal(orNull(text())),
    auth_provider: personal(orNull(text())),
    consent_version: text(),
    consent_timestamp: instant(),
    status: text<UserStatus>(),
    created_at: instant(),
    updated_at: instant(),
    erased_at: made(orNull(instant())),
  }),

  /** Every consent that a user ever gave: rows are added, never changed. */
  consents: table('consent_id', {
    consent_id: numbered(),
    user_id: id(),
    consent_version: text(),
    consent_timestamp: instant(),
    received_at: instant(),
  }),

  plans: table('plan_id', {
    plan_id: numbered(),
    tenant_id: id(),
    user_id: id(),
    partner_plan_id: text(),
    amount_usd: usd(),
    frequency: text<Frequency>(),
    smart_timing_enabled: flag(),
    start_date: instant(),
    status: text<PlanStatus>(),
    created_at: instant(),
    updated_at: instant(),
  }),

  windows: table('window_id', {
    window_id: id(),
    plan_id: id(),
    window_start: instant(),
    window_end: instant(),
    budget: usd(),
    reserved: made(usd()),
    spent: made(usd()),
    released: made(usd()),
    excess: made(usd()),
    closed_at: made(orNull(instant())),
    close_reason: made(orNull(text<CloseReason>())),
  }),

  /** One narrow row for each current window: all columns that a pass reads and writes for a waiting plan. */
  schedules: table('plan_id', {
    plan_id: id(),
    window_id: id(),
    awake: flag(),
    next_run_at: instant(),
    limit_price: orNull(price()),
    clock_at: orNull(instant()),
    window_start: instant(),
    window_end: instant(),
    budget: usd(),
    fireable: usd(),
    floor: usd(),
    tranche_index: count(),
    slots: orNull(count()),
    units_per_slot: orNull(count()),
    units_fired: orNull(count()),
    slot: count(),
    reference_price: orNull(price()),
    half_width: orNull(real()),
    extras_left: count(),
    next_extra_at: instant(),
  }),

  executions: table('execution_id', {
    execution_id: text<ExecutionId>(),
    tenant_id: id(),
    plan_id: id(),
    window_id: id(),
    window_start: instant(),
    tranche_index: count(),
    amount_usd: usd(),
    trigger_kind: text<Trigger | typeof RECORDED>(),
    slot: count(),
    units: count(),
    price: orNull(price()),
    reference_price: orNull(price()),
    reservation_price: orNull(price()),
    created_at: instant(),
    status: text<ExecutionStatus>(),
    delivered_count: made(count()),
    lease_expires_at: made(orNull(instant())),
    cancelled_at: made(orNull(instant())),
    cancel_reason: made(orNull(text())),
    unkept_reports: made(count()),
  }),

  /** The accepted confirmation of an execution: rows are added, never changed. */
  trades: table('execution_id', {
    execution_id: text<ExecutionId>(),
    tenant_id: id(),
    plan_id: id(),
    user_id: id(),
    ...REPORTED,
    recorded_at: instant(),
    received_at: orNull(instant()),
    /** Made from the parts of a row that never changes (rows/ledger.ts), as that of an adjustment. */
    digest: text(),
  }),

  /** Late fills: reports of fills that were refused. */
  late_reports: table('report_id', {
    report_id: numbered(),
    execution_id: text<ExecutionId>(),
    tenant_id: id(),
    /** A hash of the report: a repeat is not kept twice. */
    fingerprint: text(),
    ...REPORTED,
    /** Always null: only fills are kept. */
    failure_reason: made(orNull(text())),
    received_at: instant(),
    accepted_at: made(orNull(instant())),
    reason: text(),
    decided_at: made(orNull(instant())),
    decision_reason: made(orNull(text())),
    /** Null in rows from before these digests. */
    content_digest: orNull(text()),
  }),

  /** Corrections of trades: rows are added, never changed. */
  adjustments: table('adjustment_id', {
    adjustment_id: id(),
    execution_id: text<ExecutionId>(),
    tenant_id: id(),
    plan_id: id(),
    user_id: id(),
    usd_amount: usd(),
    btc_amount: btc(),
    reason: text(),
    recorded_at: instant(),
    digest: text(),
    report_id: orNull(id()),
    partner_order_id: orNull(text()),
    partner_fee_usd: orNull(usd()),
    execution_price: orNull(price()),
    executed_at: orNull(instant()),
  }),

  webhooks: table('tenant_id', {
    tenant_id: id(),
    url: text(),
    secret: text(),
    status: text<Webhook['status']>(),
    created_at: instant(),
    updated_at: instant(),
    last_delivered_at: orNull(instant()),
    last_status_code: orNull(count()),
    consecutive_failures: count(),
    last_failed_at: orNull(instant()),
    last_failure_reason: orNull(text()),
  }),

  webhook_events: table('tick_id tenant_id', {
    tick_id: id(),
    tenant_id: id(),
    count: count(),
    earliest_execution_id: text<ExecutionId>(),
    created_at: instant(),
    claimed_at: made(orNull(instant())),
  }),

  webhook_deliveries: table('tenant_id number', {
    tenant_id: id(),
    number: count(),
    ended_at: instant(),
    count: count(),
    earliest_execution_id: text<ExecutionId>(),
    origin: text(),
    status_code: orNull(count()),
    failure_reason: orNull(text()),
    duration_ms: count(),
  }),

  prices: table('at', { at: instant(), price: price(), source: text() }),

  price_imports: table('at', { at: instant(), price: price() }),

  volatility: table('one', {
    one: one(),
    variance: real(),
    hours: real(),
    last_price: orNull(price()),
    last_at: orNull(instant()),
  }),

  ticks: table('tick_id', {
    tick_id: numbered(),
    at: instant(),
    price: orNull(price()),
    plans_evaluated: made(count()),
    executions_created: made(count()),
    windows_rolled: made(count()),
    finished_at: made(orNull(instant())),
    feed: orNull(text()),
    feed_failure: orNull(text()),
    database_bytes: orNull(count()),
  }),

  clock_disputes: table('one', {
    one: one(),
    clock_at: instant(),
    witness_at: instant(),
    source: text(),
  }),

  frozen: table('one', {
    one: one(),
    kind: text<FrozenKind>(),
    at: instant(),
    by: text(),
    reason: text(),
    moved_to: orNull(text()),
    replaced: text(),
  }),

  last_results: table('job host', {
    job: text<JobResult['job']>(),
    host: text(),
    at: instant(),
    ok: flag(),
    well_at: orNull(instant()),
    ends_at: orNull(instant()),
    message: text(),
    folder: orNull(text()),
    file: orNull(text()),
    file_host: orNull(text()),
    begins_at: orNull(instant()),
  }),

  tiers: table('name from_month', {
    name: text(),
    from_month: text<Tier['fromMonth']>(),
    min_volume_usd: orNull(usd()),
    rate_bps: count(),
    per_active_user_usd: usd(),
    monthly_minimum_usd: usd(),
    place: count(),
  }),

  tier_overrides: table('partner_slug from_month', {
    partner_slug: text(),
    from_month: text<Tier['fromMonth']>(),
    tier_name: orNull(text()),
  }),

  minimum_ends: table('partner_slug from_month', {
    partner_slug: text(),
    from_month: text<Tier['fromMonth']>(),
    last_month: orNull(text()),
  }),

  /** Issued invoices and credit notes: rows are added, never changed. */
  invoices: table('number', {
    number: text(),
    series: text(),
    position: count(),
    partner_slug: text(),
    month: text(),
    corrects: orNull(text()),
    issued_at: instant(),
    net_usd: usd(),
    tax_usd: usd(),
    details: text(),
  }),

  closed_months: table('month', {
    month: text(),
    period_end: instant(),
    closed_at: instant(),
  }),

  reported_until: table('one', {
    one: one(),
    at: instant(),
  }),

  sandboxes: table('tenant_id', {
    tenant_id: id(),
    environment: text<'test'>(),
    offset_ms: made(count()),
    reported_until: made(instant()),
    resetting: made(flag()),
    used_until: made(instant()),
  }),

  used_before_reset: table('tenant_id partner_plan_id', {
    tenant_id: id(),
    partner_plan_id: text(),
    window_start: instant(),
  }),

  stops: table('user_id', {
    user_id: id(),
    tenant_id: id(),
    plan_id: id(),
    plans_paused: count(),
    executions_cancelled: count(),
    begun_at: instant(),
    ended_at: made(orNull(instant())),
  }),

  polls: table('tenant_id', { tenant_id: id(), polled_at: instant() }),

  /** Operators' changes: rows are added, never changed. */
  audit: table('audit_id', {
    audit_id: numbered(),
    at: instant(),
    os_user: text(),
    action: text(),
    subject: text(),
    detail: text(),
  }),
} as const

type All = typeof tables
export type TableName = keyof All
type ShapeOf<T extends TableName> = All[T]['shape']
export type ColumnName<T extends TableName> = keyof ShapeOf<T> & string
type RowIn<C extends Columns> = { [K in keyof C]: C[K] extends Column<infer R> ? R : never }
type ValuesIn<C extends Columns> = { [K in keyof C]: C[K] extends Column<unknown, infer V> ? V : never }
type MadeIn<C extends Columns> = {
  [K in keyof C]: C[K] extends Column<unknown, unknown, true> ? K : never
}[keyof C]

/** A column that an insert names. */
type AddedName<T extends TableName> = Exclude<ColumnName<T>, MadeIn<ShapeOf<T>>>

/** A row as a store reads it, without its digest. */
export type RowOf<T extends TableName> = Omit<RowIn<ShapeOf<T>>, 'digest'>
/** The values of a new row, without its digest: a column that is left out does not compile. */
export type NewRow<T extends TableName> = Omit<ValuesIn<ShapeOf<T>>, MadeIn<ShapeOf<T>> | 'digest'>
export type ReportRow = RowIn<typeof REPORTED>
export type ReportValues = ValuesIn<typeof REPORTED>

/** A table, for a copy and the check. */
export type Table = {
  readonly name: TableName
  readonly key: readonly string[]
  readonly columns: readonly ({ readonly name: string } & Column)[]
}
export const TABLES: readonly Table[] = Object.entries<Described<Columns>>(tables).map(
  ([name, { key, shape }]) => ({
    name: name as TableName,
    key,
    columns: Object.entries(shape).map(([name, column]) => ({ name, ...column })),
  }),
)

/** The columns with personal data, by table: such a row has its user's number. */
export const PERSONAL = TABLES.map(({ name, columns }) => ({
  name,
  columns: columns.flatMap((column) => (column.isPersonal ? [column.name] : [])),
})).filter(({ columns }) => columns.length > 0)

/** Whether there is personal data of a user, in a statement that calls its row `as`. */
export const hasPersonal = (as: string): string =>
  `(${PERSONAL.map(
    ({ name, columns }) =>
      `exists (select 1 from ${name} d
       where d.user_id = ${as}.user_id and (${columns.map((column) => `d.${column} is not null`).join(' or ')}))`,
  ).join(' or ')})`

export const columnOf = <T extends TableName>(of: T, name: ColumnName<T>): Column =>
  (tables[of].shape as Readonly<Record<string, Column>>)[name] as Column

/** Columns of a table as a statement takes many rows of them (statement.ts). */
export const kindsOf = <T extends TableName>(of: T, ...names: readonly ColumnName<T>[]): Kinds =>
  Object.fromEntries(names.map((name) => [name, columnOf(of, name).kind]))

export const columnsOf = <T extends TableName>(of: T): ColumnName<T>[] =>
  Object.keys(tables[of].shape) as ColumnName<T>[]

/** The columns that an insert names: those that the database does not fill by itself, except `without`. */
export const columnsToAdd = <T extends TableName, W extends ColumnName<T> = never>(
  of: T,
  ...without: readonly W[]
): Exclude<AddedName<T>, W>[] =>
  columnsOf(of).filter(
    (name): name is Exclude<AddedName<T>, W> =>
      !columnOf(of, name).isMade && !(without as readonly string[]).includes(name),
  )

/** SQL expressions for columns that have no parameter of the same name. */
type Values<T extends TableName> = { readonly [K in ColumnName<T>]?: string }

/** The insert of a new row. `values` are the expressions for columns that have no parameter of the same name. */
export function insertInto<T extends TableName>(of: T, values: Values<T> = {}): string {
  const names: readonly ColumnName<T>[] = columnsToAdd(of)
  return `insert into ${of} (${names.join(', ')})
  values (${names.map((name) => values[name] ?? `:${name}`).join(', ')})`
}

/** The insert of a row, or the update of the row that has its key already, in all columns but `kept`. */
export function putInto<T extends TableName>(
  of: T,
  values: Values<T> = {},
  ...kept: readonly ColumnName<T>[]
): string {
  const key = tables[of].key as readonly ColumnName<T>[]
  const others = columnsToAdd(of, ...key, ...kept)
  return `${insertInto(of, values)}
  on conflict (${key.join(', ')}) do update set ${others.map((name) => `${name} = excluded.${name}`).join(', ')}`
}

/** The insert of many rows, the parameter `rows`; in the expressions `values`, a row is `n`. */
export function insertRows<T extends TableName>(
  { rows }: Pick<Dialect, 'rows'>,
  of: T,
  { names = columnsToAdd(of), values = {} }: { names?: readonly ColumnName<T>[]; values?: Values<T> } = {},
): string {
  const kinds = kindsOf(of, ...names.filter((name) => !values[name]))
  // The condition keeps SQLite from taking "on conflict" for that of a join.
  return `insert into ${of} (${names.join(', ')})
  select ${names.map((name) => values[name] ?? name).join(', ')} from ${rows('rows', kinds, 'n')} where true`
}

/** The update of many rows, the parameter `rows`, found by the columns `keys`. */
export const updateOf = <T extends TableName>(
  of: T,
  keys: readonly ColumnName<T>[],
  names: readonly ColumnName<T>[],
  condition = '',
): Query<never> =>
  query(
    ({ rows }) => `update ${of} set ${names.map((name) => `${name} = n.${name}`).join(', ')}
      from ${rows('rows', kindsOf(of, ...keys, ...names), 'n')}
      where ${keys.map((key) => `${of}.${key} = n.${key}`).join(' and ')} ${condition}`,
  )

/** Columns of a table that a statement calls `as`, for a select; `prefix` begins the names in its result. */
export const selected = (names: readonly string[], as: string, prefix = ''): string =>
  names.map((name) => `${as}.${name}${prefix && ` as ${prefix}${name}`}`).join(', ')

/** The assignments of an update, whose parameters have the names of the columns. */
export const assigned = (names: readonly string[]): string =>
  names.map((name) => `${name} = :${name}`).join(', ')
