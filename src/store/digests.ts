// What a row must hash to: kept beside it, so that a row whose bytes have changed on the disk, or behind the program's
// back, is told from one that was stored like this. The check compares every row with its digest; whoever acts on a row
// asks `intact` first (docs/decisions/0072-a-row-is-believed-while-its-digest-agrees.md).

import { hash } from 'node:crypto'
import type { Adjustment } from '../core/adjustment.ts'
import type { Report } from '../core/confirmation-report.ts'
import { DamagedRow } from '../core/problem.ts'
import { reportFingerprint } from '../core/same-report.ts'
import type { Trade } from '../core/trade.ts'

export const tradeDigest = ({ executionId, recordedAt, receivedAt, report }: Trade): string => {
  const content = [executionId, recordedAt, reportFingerprint(report)]
  // Trades that were confirmed in time hash as they did before late ones kept the time of their report.
  return digestOf(receivedAt === null ? content : [...content, receivedAt])
}

export const adjustmentDigest = (adjustment: Adjustment): string => {
  const { adjustmentId, executionId, usd, btc, reason, recordedAt, reportId, partnerOrderId, fill } =
    adjustment
  const content = [adjustmentId, executionId, usd.toString(), btc.toString(), reason, recordedAt]
  // Adjustments that an operator worded hash as they did before there were other kinds.
  if (reportId === null) return digestOf(content)
  const late = [...content, reportId, partnerOrderId]
  if (fill === null) return digestOf(late)
  const { partnerFee, executionPrice, executedAt } = fill
  return digestOf([...late, partnerFee?.toString() ?? null, executionPrice.toString(), executedAt])
}

/** Of a bounded size, however long the report is. */
export const reportDigest = (report: Report): string => digestOf([reportFingerprint(report)])

const digestOf = (content: unknown[]): string => hash('sha256', JSON.stringify(content))

const table = (key: string, columns: string) => ({ key: key.split(' '), columns: columns.split(/\s+/) })

/**
 * The tables with a column `digest`, each with its key and the columns that the digest covers. A column that statements
 * change in many rows at once, without reading them, is not among them: such a statement would give a damaged row a
 * digest that agrees. Those follow from other rows, and rules of the check hold them (sql/check-rules.ts).
 */
export const DIGESTED = {
  partners: table('partner_slug', 'partner_slug name status min_tranche held created_at'),
  tenants: table('tenant_id', 'partner_slug environment'),
  api_keys: table(
    'key_id',
    'key_id tenant_id key_sha256 prefix last_four label created_at expires_at revoked_at',
  ),
  users: table(
    'user_id',
    `tenant_id partner_user_id email auth_provider consent_version consent_timestamp status created_at erased_at`,
  ),
  consents: table('consent_id', 'user_id consent_version consent_timestamp received_at'),
  plans: table(
    'plan_id',
    'tenant_id user_id partner_plan_id amount_usd frequency smart_timing_enabled start_date created_at',
  ),
  windows: table('window_id', 'plan_id window_start window_end budget'),
  schedules: table(
    'plan_id',
    `plan_id window_id next_run_at limit_price clock_at window_start window_end budget tranche_index slots
     units_per_slot units_fired slot reference_price half_width extras_left next_extra_at`,
  ),
  executions: table(
    'execution_id',
    `execution_id tenant_id plan_id window_id window_start tranche_index amount_usd trigger_kind slot units price
     reference_price reservation_price created_at`,
  ),
  late_reports: table(
    'report_id',
    `execution_id tenant_id fingerprint partner_order_id status usd_amount btc_amount execution_price partner_fee_usd
     executed_at reason received_at`,
  ),
  webhooks: table('tenant_id', 'tenant_id url secret created_at'),
  tiers: table(
    'name from_month',
    'name from_month min_volume_usd rate_bps per_active_user_usd monthly_minimum_usd place',
  ),
  tier_overrides: table('partner_slug from_month', 'partner_slug from_month tier_name'),
  closed_months: table('month', 'month period_end closed_at'),
  reported_until: table('one', 'at'),
  audit: table('audit_id', 'at os_user action subject detail'),
} as const satisfies Record<string, { key: readonly string[]; columns: readonly string[] }>

export type Digested = keyof typeof DIGESTED

type Value = string | number | bigint | null | undefined
export type DigestedRow = Readonly<Record<string, unknown>>

/** The one column that is no integer and no text: by its multiple of 2^-40, which both stores spell alike. */
const REAL = 'half_width'
const REAL_STEPS = 2 ** 40
/** Far above every share of a price; what a disk makes of one may be anything. */
const REAL_MAX = 2 ** 20

function spelledReal(value: NonNullable<Value>): string {
  if (Math.abs(Number(value)) >= REAL_MAX) return `${value}`
  const steps = Math.floor(Number(value) * REAL_STEPS)
  return `${Number.isSafeInteger(steps) ? steps : BigInt(steps)}`
}

/** The first 48 bits of the SHA-256 of a text, as an integer. */
export const textDigest = (text: string): number => Number.parseInt(hash('sha256', text).slice(0, 12), 16)

/** What the row of a table must have as its digest; a value that is missing counts as null. */
export function rowDigest(name: Digested, row: DigestedRow): number {
  // A pass does this five times for each tranche: without a list in between.
  let text = ''
  let between = ''
  for (const column of DIGESTED[name].columns) {
    const value = row[column] as Value
    text += between
    if (value !== null && value !== undefined) text += column === REAL ? spelledReal(value) : value
    between = '|'
  }
  return textDigest(text)
}

/** The row itself, which is the caller's own, with its digest, to be stored. */
export const withDigest = <Row extends DigestedRow>(name: Digested, row: Row): Row & { digest: number } =>
  Object.assign(row, { digest: rowDigest(name, row) })

export const isIntact = (name: Digested, row: DigestedRow, digest = row.digest): boolean =>
  Number(digest) === rowDigest(name, row)

/** How the row of a table is named to an operator. */
export const placeOf = (name: Digested, row: DigestedRow): string =>
  `${name} row ${DIGESTED[name].key.map((column) => row[column]).join(' ')}`

/**
 * The row itself, if it is what was stored. `digest` is for a row that was joined to another table, whose own digest
 * has the name. Throws DamagedRow.
 */
export function intact<Row extends object>(name: Digested, row: Row, digest?: bigint): Row {
  if (!isIntact(name, row as DigestedRow, digest))
    throw new DamagedRow(name, placeOf(name, row as DigestedRow))
  return row
}

/** The text that a digest is made of, as SQL that both stores speak. */
export const digestText = (name: Digested): string => {
  const value = (column: string) =>
    column === REAL ? `cast(floor(${REAL} * ${REAL_STEPS}) as bigint)` : column
  return `concat(${DIGESTED[name].columns.map(value).join(", '|', ")})`
}
