// Faults: rows that break a rule, and rows that were changed after they were recorded. Also warnings, which are risks.

import { RECORDED } from '../../core/execution.ts'
import { type Finding, fillEarly, finding, findingsOf, guideTo, lateFills } from '../../core/findings.ts'
import { type Btc, formatBtc, formatPrice, formatUsd, type Price, type Usd } from '../../core/money.ts'
import { type Environment, tenantName } from '../../core/partner.ts'
import {
  FAR_OFF,
  MARKET_PRICE_MS,
  type OddPrice,
  oddPrice,
  PLAUSIBLE_PRICES,
  PRICE_TOLERANCE_PERCENT,
} from '../../core/price.ts'
import { Problem } from '../../core/problem.ts'
import { counted } from '../../core/text.ts'
import { formatInstant } from '../../core/time.ts'
import type { CheckStore, Fault, Look } from '../monitoring.ts'
import { type TenantRow, tenantOf } from '../rows/accounts.ts'
import {
  type AdjustmentRow,
  adjustmentDigest,
  adjustmentOf,
  isAsReported,
  type LateFillRow,
  type TradeRow,
  tradeDigest,
  tradeOf,
} from '../rows/ledger.ts'
import { createWindowStore } from '../shared/plans.ts'
import { followsRule, LEDGER_RULES } from '../sql/check-rules.ts'
import { IS_LIVE } from '../sql/fragments.ts'
import { breathe, instant, type Query, query } from '../statement.ts'
import type { PlanAhead, WindowStore } from '../store.ts'
import type { TableName } from '../tables.ts'
import type { Base } from '../transaction.ts'
import { noneIfDamaged } from './quick-looks.ts'
import { type SchemaDifferences, schemaFaults } from './schema.ts'
import { earlyFillsReader, type OwnVitals, stockTaker, vitalsReader } from './vitals.ts'

/** The most findings of a rule: more would add nothing. */
export const FINDINGS_PER_RULE_MAX = 100
/** After this many in all, no further trades are read. */
const FINDINGS_MAX = FINDINGS_PER_RULE_MAX * LEDGER_RULES.length
const ROWS_PER_READ = 1_000

/** A kind of fault, and the rows that break its rule. */
type CheckedRule = { kind: string; broken: Query<Fault> }

/** `unless` excludes partners whose schedules are behind, from the rule that these follow them. */
export const checkedRules = (unless: string): CheckedRule[] =>
  [...LEDGER_RULES, followsRule(unless)].map(({ kind, sql, message }) => ({
    kind,
    broken: query(
      (dialect) => `${typeof sql === 'string' ? sql : sql(dialect)} limit ${FINDINGS_PER_RULE_MAX}`,
      (row: Record<string, unknown>) => {
        const start = typeof row.start === 'bigint' ? ` window ${formatInstant(instant(row.start))}` : ''
        return { kind, subject: `${row.place}${start}`, message: message(row) }
      },
    ),
  }))

/** A row that never changes, by its key, and the fault if it did. */
type Seen = { key: bigint | string; fault: Fault | null }
/** All rows of a table that never change, in the order of their key. */
const unchanging = <Row>(table: TableName, key: keyof Row & string, faultOf: (row: Row) => Fault | null) =>
  query(
    `select * from ${table} where ${key} > :after order by ${key} limit :limit`,
    (row: Row): Seen => ({ key: row[key] as Seen['key'], fault: faultOf(row) }),
  )

type Digested = { digest: string }

/** Few by nature, like adjustments. */
const LATE_REPORTS = unchanging('late_reports', 'report_id', (row: LateFillRow) => {
  if (isAsReported(row)) return null
  const message = `is not what was stored (execution ${row.execution_id})`
  return { kind: 'row_changed', subject: `late_reports row ${row.report_id}`, message }
})
const ADJUSTMENTS = unchanging('adjustments', 'adjustment_id', (row: AdjustmentRow & Digested) => {
  if (adjustmentDigest(adjustmentOf(row)) === row.digest) return null
  const message = `was changed after it was recorded (execution ${row.execution_id})`
  return { kind: 'adjustment_changed', subject: `adjustment ${row.adjustment_id}`, message }
})
const TRADES = unchanging('trades', 'execution_id', (row: TradeRow & Digested) => {
  if (tradeDigest(tradeOf(row)) === row.digest) return null
  const message = `was changed after it was recorded (partner_order_id ${row.partner_order_id})`
  return { kind: 'trade_changed', subject: `trade ${row.execution_id}`, message }
})

/** The parts of the check that each store implements itself. */
export type OwnFaults = {
  schema: { compare: () => Promise<SchemaDifferences>; next?: readonly string[] }
  /** Faults of the database itself, not of its contents. */
  looks: readonly (readonly [kind: string, look: () => Promise<Fault[]>])[]
  rules: readonly CheckedRule[]
  /** The message when a kind of fault cannot be checked, because a page cannot be read. */
  unreadable: (kind: string, error: Problem) => string
}

/** Each look has a snapshot of its own: one for all would hold back vacuum on a server, checkpoints on a file. */
export function faultsOf(base: Base, specific: OwnFaults): CheckStore['findFaults'] {
  const all = <Row>(statement: Query<Row>, params = {}): Promise<Row[]> =>
    base.look((tx) => tx.all(statement, params), { reads: 'whole' })

  /** A page that cannot be read, twice, is reported as a finding, and the other looks continue. */
  async function readable(kind: string, look: () => Promise<Fault[]>): Promise<Fault[]> {
    try {
      return await look().catch(look)
    } catch (error) {
      if (!(error instanceof Problem && error.code === 'database_damaged')) throw error
      return [{ kind: 'integrity', subject: 'database', message: specific.unreadable(kind, error) }]
    }
  }

  async function changed(page: Query<Seen>, first: Seen['key']): Promise<Fault[]> {
    const found: Fault[] = []
    for (let after = first; ; ) {
      const rows = await all(page, { after, limit: ROWS_PER_READ })
      found.push(...rows.flatMap(({ fault }) => fault ?? []))
      const last = rows.at(-1)
      if (rows.length < ROWS_PER_READ || last === undefined || found.length > FINDINGS_MAX) return found
      after = last.key
    }
  }

  return async (kinds, sayAdditions) => {
    const found: Fault[] = []
    const seek = async (kind: string, look: () => Promise<Fault[]>): Promise<void> => {
      if (kinds?.includes(kind) ?? true) found.push(...(await readable(kind, look)))
    }
    await seek('schema_differs', async () => {
      const differences = await specific.schema.compare()
      sayAdditions?.(differences.additions)
      return schemaFaults(differences, specific.schema.next)
    })
    for (const [kind, look] of specific.looks) await seek(kind, look)
    for (const { kind, broken } of specific.rules) await seek(kind, () => all(broken))
    await seek('row_changed', () => changed(LATE_REPORTS, 0n))
    await seek('adjustment_changed', () => changed(ADJUSTMENTS, 0n))
    await seek('trade_changed', () => changed(TRADES, ''))
    return found
  }
}

// Warnings: facts that are not wrong yet but may become so. To the findings from the vitals (core/findings.ts), the
// check adds those that take more reading: figures that contradict each other, and traces of a wrong clock.

export function warningsOf(base: Base, specific: OwnVitals): CheckStore['findWarnings'] {
  const clock = () => base.look((tx) => tx.clock)
  const looks: Record<Environment, readonly Look[]> = {
    live: [glance(base, specific), mispricedTrades(base, 'live'), rolledAhead(createWindowStore(base))],
    test: [lateInTest(base, specific), earlyInTest(base), mispricedTrades(base, 'test')],
  }
  return async (environment = 'live') => {
    const found: Finding[] = []
    for (const look of looks[environment]) found.push(...(await look(clock).catch(noneIfDamaged)))
    return found
  }
}

function glance(base: Base, parts: OwnVitals): Look {
  const [takeStock, readVitals] = [stockTaker(base), vitalsReader(base, parts)]
  return async (clock) => {
    const now = await clock()
    return findingsOf(await readVitals(now, await takeStock(now)), now)
  }
}

function lateInTest(base: Base, { partners }: OwnVitals): Look {
  return async () =>
    (await base.look((tx) => tx.all(partners.lateFills, { environment: 'test' }))).flatMap((one) => {
      const found = lateFills(one)
      return found ? [finding(found)] : []
    })
}

function earlyInTest(base: Base): Look {
  const read = earlyFillsReader(base)
  return async (clock) => (await read('test', await clock())).map(fillEarly).map(finding)
}

const LIVE = { slug: null, environment: 'live' } as const

/** One finding for each tenant, under the name of the first plan. */
const rolledAhead =
  ({ listAhead }: WindowStore): Look =>
  async () => {
    const found = new Map<string, { first: PlanAhead; n: number }>()
    for (let after: number | null = null; ; ) {
      const page: Awaited<ReturnType<typeof listAhead>> = await listAhead(LIVE, {
        after,
        limit: ROWS_PER_READ,
      })
      for (const plan of page.plans) {
        const place = tenantName(plan.tenant)
        const earlier = found.get(place)
        if (earlier) earlier.n += 1
        else found.set(place, { first: plan, n: 1 })
      }
      if (page.cursor === null) break
      after = page.cursor
    }
    const byTenant = [...found].sort(([, a], [, b]) => a.first.tenant.tenantId - b.first.tenant.tenantId)
    return byTenant.map(([place, { first, n }]) => {
      const { tenant, partnerPlanId, window } = first
      const message =
        `its window starts ${formatInstant(window.start)}, opened by a clock that was ahead, and it buys nothing ` +
        `until then; in all ${counted(n, 'plan')} of ${place}`
      return finding({
        kind: 'windows_ahead',
        tenant,
        subject: `${place} plan ${partnerPlanId}`,
        message,
        next: guideTo('levers#the-clock-was-wrong'),
      })
    })
  }

// Fills that deserve a look: their figures contradict each other, or the price of the market.

/** The most of these findings: more would add nothing. */
const MISPRICED_MAX = 20

/** A trade, the total of its execution, and the market price, if one is known. */
type Row = TradeRow & TenantRow & { usd: bigint; btc: bigint; market: bigint | null }

/** By the index of tenants, because test environments have few trades compared with all. */
const IS_TEST = `d.tenant_id in (select tenant_id from tenants where environment = 'test')`

/** The time of purchase, as far as it is known: an operator's booking makes the execution later. */
const BOUGHT_AT = `case when e.trigger_kind = '${RECORDED}'
  then coalesce(d.executed_at, d.received_at, e.created_at) else e.created_at end`
/** The price at which the execution fired; for one without, by the clock or booked, the last one stored before it. */
const MARKET = `coalesce(e.price, (
  select p.price from prices p where p.at between ${BOUGHT_AT} - ${MARKET_PRICE_MS} and ${BOUGHT_AT}
  order by p.at desc limit 1))`

/** A little less than the tolerance: the floats only choose the rows that deserve an exact look. */
const SUSPECT_SHARE = (0.98 * Number(PRICE_TOLERANCE_PERCENT)) / 100
const SUSPECT_FACTOR = 0.99 * Number(FAR_OFF)
const { least, most } = PLAUSIBLE_PRICES
const IS_FAR_OFF = `coalesce(cast(d.execution_price as double precision) / ${MARKET},
  case when d.execution_price between ${least} and ${most} then 1 else 0 end)
  not between ${1 / SUSPECT_FACTOR} and ${SUSPECT_FACTOR}`

const suspect = (which: string): Query<Row> =>
  query<Row>(
    `select t.*, d.*, d.usd_amount as usd, d.btc_amount as btc, ${MARKET} as market
   from trades d join tenants t on t.tenant_id = d.tenant_id join executions e on e.execution_id = d.execution_id
   where ${which} and d.execution_id > :after
     and d.execution_price is not null
     and (abs(d.usd_amount * 1e8 - cast(d.btc_amount as double precision) * d.execution_price)
       > ${SUSPECT_SHARE} * d.usd_amount * 1e8 or ${IS_FAR_OFF})
     and not exists (select 1 from adjustments a where a.execution_id = d.execution_id)
   order by d.execution_id limit :limit`,
  )
// Few trades are adjusted, so all of them are checked; the plus keeps SQLite from going through all trades for them.
// Only a late fill has a price of its own.
const adjusted = (which: string): Query<Row> =>
  query<Row>(
    `select t.*, d.*, d.usd_amount + a.usd as usd, d.btc_amount + a.btc as btc, ${MARKET} as market
   from (
     select execution_id, cast(sum(usd_amount) as bigint) as usd, cast(sum(btc_amount) as bigint) as btc
     from adjustments where execution_id > :after
     group by execution_id having count(*) > count(report_id)) a
   join trades d on d.execution_id = a.execution_id join tenants t on t.tenant_id = d.tenant_id
   join executions e on e.execution_id = d.execution_id
   where ${which} and d.execution_price is not null
   order by d.execution_id limit :limit`,
  )

const STATEMENTS: Record<Environment, { suspect: Query<Row>; adjusted: Query<Row> }> = {
  live: { suspect: suspect(IS_LIVE), adjusted: adjusted(IS_LIVE) },
  test: { suspect: suspect(IS_TEST), adjusted: adjusted(`+${IS_TEST}`) },
}

const mispricedTrades =
  (base: Base, environment: Environment): Look =>
  async () => {
    const statements = STATEMENTS[environment]
    const asConfirmed = await firstOf(base, statements.suspect, 'is confirmed as')
    const asAdjusted = await firstOf(base, statements.adjusted, 'is adjusted to')
    return [...asConfirmed, ...asAdjusted].slice(0, MISPRICED_MAX)
  }

async function firstOf(base: Base, statement: Query<Row>, verb: string): Promise<Finding[]> {
  const found: Finding[] = []
  for (let after = ''; ; ) {
    const rows = await base.look((tx) => tx.all(statement, { after, limit: ROWS_PER_READ }))
    found.push(...rows.flatMap((row) => mispriced(row, verb) ?? []))
    const last = rows.at(-1)
    if (found.length >= MISPRICED_MAX || rows.length < ROWS_PER_READ || !last) return found
    after = last.execution_id
    await breathe()
  }
}

function mispriced(row: Row, verb: string): Finding | null {
  const trade = tradeOf(row)
  const amounts = { usd: row.usd as Usd, btc: row.btc as Btc }
  const market = row.market as Price | null
  const odd = oddPrice(trade, { amounts, market })
  if (odd === null) return null
  const figures = `${formatUsd(amounts.usd)} USD for ${formatBtc(amounts.btc)} BTC at ${formatPrice(odd.price)}`
  const { executionId } = trade
  const message = `${verb} ${figures}, ${faultWords(odd, market)}`
  return finding({
    kind: 'trade_price',
    tenant: tenantOf(row),
    subject: `trade ${executionId}`,
    message,
    next: guideTo('levers#a-fill-with-wrong-amounts'),
  })
}

function faultWords({ fault }: OddPrice, market: Price | null): string {
  if (fault === 'contradicted') return 'which contradict each other: ask the partner which of them is wrong'
  const than =
    market === null
      ? 'which is outside any plausible range'
      : `while the market was at ${formatPrice(market)}`
  return `${than}: ask the partner what unit its figures have`
}
