// The check: what SQLite says of the file, and every rule of the ledger recomputed from executions and trades.

import { formatInstant } from '../../../core/instant.ts'
import { formatUsd, type Usd } from '../../../core/money.ts'
import type { Finding } from '../../health.ts'
import { instant } from '../../rows.ts'
import { type Connection, type Database, isCorrupt } from '../file/connection.ts'
import { ADJUSTED_USD, ADJUSTMENT_RULES, changedAdjustments } from '../ledger/adjustments.ts'
import { type TradeRow, tradeDigest, tradeOf } from '../ledger/executions.ts'

/** A rule stops after so many findings: more say nothing new. */
const FINDINGS_PER_RULE_MAX = 100
const TRADES_PER_READ = 5_000

export type Rule = { kind: string; sql: string; message: (row: Record<string, unknown>) => string }

const money = (value: unknown): string => formatUsd(value as Usd)

// Every rule names its row as a window (partner, environment, plan, start) or as an execution.
const WINDOW = `t.partner_slug || ' ' || t.environment || ' plan ' || p.partner_plan_id as place, w.window_start as start`
const OF_WINDOW = `from windows w join plans p on p.plan_id = w.plan_id join tenants t on t.tenant_id = p.tenant_id`
const EXECUTION = `'execution ' || e.execution_id as place, null as start`

const RULES: Rule[] = [
  {
    kind: 'window_reserved',
    sql: `select ${WINDOW}, w.reserved, x.sum as expected ${OF_WINDOW} join (
        select w.window_id, coalesce(sum(e.amount_usd), 0) as sum from windows w
        left join executions e on e.plan_id = w.plan_id and e.window_id = w.window_id and e.status in ('pending', 'sent')
        group by w.window_id) x on x.window_id = w.window_id
      where w.reserved <> x.sum`,
    message: (row) =>
      `reserved is ${money(row.reserved)}, its open executions add up to ${money(row.expected)}`,
  },
  {
    kind: 'window_spent',
    sql: `select ${WINDOW}, w.spent, x.sum as expected ${OF_WINDOW} join (
        select w.window_id, coalesce(sum(d.usd_amount), 0) + coalesce(sum(a.usd), 0) as sum from windows w
        left join executions e on e.plan_id = w.plan_id and e.window_id = w.window_id
        left join trades d on d.execution_id = e.execution_id
        ${ADJUSTED_USD}
        group by w.window_id) x on x.window_id = w.window_id
      where w.spent <> x.sum`,
    message: (row) =>
      `spent is ${money(row.spent)}, its trades and their adjustments add up to ${money(row.expected)}`,
  },
  {
    kind: 'window_budget',
    sql: `select ${WINDOW}, w.reserved + w.spent + w.released as used, w.budget ${OF_WINDOW}
      where w.reserved + w.spent + w.released > w.budget
        or (w.closed_at is not null and w.reserved + w.spent + w.released <> w.budget)
        or (w.closed_at is null and w.released <> 0)`,
    message: (row) => `reserved + spent + released is ${money(row.used)} of a budget of ${money(row.budget)}`,
  },
  {
    kind: 'schedule',
    sql: `select ${WINDOW}, s.fireable, w.budget - w.reserved - w.spent as expected ${OF_WINDOW}
      join schedules s on s.window_id = w.window_id
      where s.plan_id <> w.plan_id or w.closed_at is not null or s.budget <> w.budget
        or s.window_start <> w.window_start or s.window_end <> w.window_end
        or s.fireable <> w.budget - w.reserved - w.spent`,
    message: (row) =>
      `its schedule does not agree: fireable is ${money(row.fireable)}, the window has ${money(row.expected)} left`,
  },
  {
    kind: 'plan_window',
    sql: `select t.partner_slug || ' ' || t.environment || ' plan ' || p.partner_plan_id as place, null as start, p.status
      from plans p join tenants t on t.tenant_id = p.tenant_id
      left join schedules s on s.plan_id = p.plan_id
      left join windows w on w.plan_id = p.plan_id and w.closed_at is null
      where (p.status = 'cancelled') <> (s.plan_id is null) or (p.status = 'cancelled') <> (w.window_id is null)`,
    message: (row) =>
      `a plan that is ${row.status} must have ${row.status === 'cancelled' ? 'no' : 'one'} current window`,
  },
  {
    kind: 'execution_trade',
    sql: `select ${EXECUTION}, e.status, d.status as trade_status from executions e
      left join trades d on d.execution_id = e.execution_id
      where (e.status in ('filled', 'partial', 'failed') and d.status is not e.status)
        or (e.status in ('pending', 'sent') and d.status is not null)
        or (e.status = 'cancelled' and d.status is null and e.cancelled_at is null)
        or (e.status = 'cancelled' and d.status is not null and d.status <> 'cancelled')`,
    message: (row) => `is ${row.status}, its trade is ${row.trade_status ?? 'missing'}`,
  },
  {
    kind: 'trade_amount',
    sql: `select ${EXECUTION}, d.usd_amount, e.amount_usd from executions e
      join trades d on d.execution_id = e.execution_id where d.usd_amount > e.amount_usd`,
    message: (row) => `spent ${money(row.usd_amount)} of a reservation of ${money(row.amount_usd)}`,
  },
  {
    kind: 'execution_place',
    sql: `select ${EXECUTION} from executions e
      join plans p on p.plan_id = e.plan_id join windows w on w.window_id = e.window_id
      left join trades d on d.execution_id = e.execution_id
      where e.tenant_id <> p.tenant_id or w.plan_id <> e.plan_id or w.window_start <> e.window_start
        or d.tenant_id <> e.tenant_id or d.plan_id <> e.plan_id or d.user_id <> p.user_id`,
    message: () => 'belongs to another plan, window, user or tenant than its records say',
  },
  {
    kind: 'execution_open',
    sql: `select ${EXECUTION}, e.status from executions e
      join plans p on p.plan_id = e.plan_id join users u on u.user_id = p.user_id
      where e.status in ('pending', 'sent') and (p.status = 'cancelled' or u.status = 'disabled')`,
    message: (row) => `is ${row.status} although its plan is cancelled or its user disabled`,
  },
  ...ADJUSTMENT_RULES,
]

const FINDINGS_MAX = FINDINGS_PER_RULE_MAX * RULES.length

export function createCheck({ db, read }: Connection): () => Promise<Finding[]> {
  return async () => {
    const findings = await read(() => [
      ...readable('integrity', () => integrity(db)),
      ...readable('foreign_key', () => danglingRows(db)),
      ...RULES.flatMap((rule) => readable(rule.kind, () => broken(db, rule))),
      ...readable('adjustment_changed', () => changedAdjustments(db)),
    ])
    for (let after: string | null = ''; after !== null && findings.length <= FINDINGS_MAX; ) {
      let last: string | null = null
      const from: string = after
      const changed = await read(() =>
        readable('trade_changed', () => {
          const rows = tradesAfter(db, from)
          last = rows.at(-1)?.execution_id ?? null
          return rows.filter(wasChanged).map(changedTrade)
        }),
      )
      findings.push(...changed)
      after = last
    }
    return findings
  }
}

/** A page that cannot be read is a finding like any other: the rest of the file may still have something to say. */
function readable(kind: string, look: () => Finding[]): Finding[] {
  try {
    return look()
  } catch (error) {
    if (!isCorrupt(error)) throw error
    const message = `the file is damaged where ${kind} is looked for: ${(error as Error).message}`
    return [{ kind: 'integrity', subject: 'database', message }]
  }
}

function integrity(db: Database): Finding[] {
  const lines = db.prepare(`pragma integrity_check(${FINDINGS_PER_RULE_MAX})`).pluck().all() as string[]
  const faults = lines.filter((line) => line !== 'ok')
  return faults.map((message) => ({ kind: 'integrity', subject: 'database', message }))
}

function danglingRows(db: Database): Finding[] {
  const rows = db.pragma('foreign_key_check') as { table: string; rowid: bigint | null; parent: string }[]
  return rows.slice(0, FINDINGS_PER_RULE_MAX).map(({ table, rowid, parent }) => ({
    kind: 'foreign_key',
    subject: `${table} row ${rowid ?? '?'}`,
    message: `refers to a row of ${parent} that does not exist`,
  }))
}

function broken(db: Database, { kind, sql, message }: Rule): Finding[] {
  const rows = db.prepare(`${sql} limit ${FINDINGS_PER_RULE_MAX}`).all() as Record<string, unknown>[]
  return rows.map((row) => {
    const start = typeof row.start === 'bigint' ? ` window ${formatInstant(instant(row.start))}` : ''
    return { kind, subject: `${row.place}${start}`, message: message(row) }
  })
}

const tradesAfter = (db: Database, after: string): (TradeRow & { digest: string })[] =>
  db
    .prepare<[string, number], TradeRow & { digest: string }>(
      'select * from trades where execution_id > ? order by execution_id limit ?',
    )
    .all(after, TRADES_PER_READ)

const wasChanged = (row: TradeRow & { digest: string }): boolean => tradeDigest(tradeOf(row)) !== row.digest

const changedTrade = (row: TradeRow): Finding => ({
  kind: 'trade_changed',
  subject: `trade ${row.execution_id}`,
  message: `was changed after it was recorded (partner_order_id ${row.partner_order_id})`,
})
