// Fills that deserve a look: their figures contradict each other, or the price of the market.

import { type Finding, ticket } from '../../../core/findings.ts'
import {
  FAR_OFF,
  MARKET_PRICE_MS,
  type OddPrice,
  oddPrice,
  PLAUSIBLE_PRICES,
  PRICE_TOLERANCE_PERCENT,
} from '../../../core/mispriced-fill.ts'
import { type Btc, formatBtc, formatPrice, formatUsd, type Price, type Usd } from '../../../core/money.ts'
import type { Environment } from '../../../core/partner.ts'
import type { Look } from '../../check.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type TradeRow, tradeOf } from '../../rows/trade.ts'
import { IS_LIVE } from '../../sql/which-tenants.ts'
import { breathe, type Reader, type Sql, sql } from '../reader.ts'

/** More of them would say nothing new. */
const MISPRICED_MAX = 20

const TRADES_PER_READ = 1_000

/** A trade, what its execution comes to, and the price of the market, as far as one is known. */
type Row = TradeRow & TenantRow & { usd: bigint; btc: bigint; market: bigint | null }

/** By the index of tenants: what test environments have is little beside the trades of all. */
const IS_TEST = `d.tenant_id in (select tenant_id from tenants where environment = 'test')`

/** What the execution saw as it fired. An execution by the clock may have seen nothing: what was stored before it. */
const MARKET = `coalesce(e.price, (
  select p.price from prices p where p.at between e.created_at - ${MARKET_PRICE_MS} and e.created_at
  order by p.at desc limit 1))`

/** A little less than what is tolerated: the floats only choose what is worth an exact look. */
const SUSPECT_SHARE = (0.98 * Number(PRICE_TOLERANCE_PERCENT)) / 100
const SUSPECT_FACTOR = 0.99 * Number(FAR_OFF)
const { least, most } = PLAUSIBLE_PRICES
const IS_FAR_OFF = `coalesce(cast(d.execution_price as double precision) / ${MARKET},
  case when d.execution_price between ${least} and ${most} then 1 else 0 end)
  not between ${1 / SUSPECT_FACTOR} and ${SUSPECT_FACTOR}`

const suspect = (which: string): Sql<Row> =>
  sql<Row>(
    `select t.*, d.*, d.usd_amount as usd, d.btc_amount as btc, ${MARKET} as market
   from trades d join tenants t on t.tenant_id = d.tenant_id join executions e on e.execution_id = d.execution_id
   where ${which} and d.execution_id > :after
     and d.execution_price is not null
     and (abs(d.usd_amount * 1e8 - cast(d.btc_amount as double precision) * d.execution_price)
       > ${SUSPECT_SHARE} * d.usd_amount * 1e8 or ${IS_FAR_OFF})
     and not exists (select 1 from adjustments a where a.execution_id = d.execution_id)
   order by d.execution_id limit :limit`,
  )
// Few trades are adjusted, so all of those are worth it. Only a late fill was bought at a price of its own.
const adjusted = (which: string): Sql<Row> =>
  sql<Row>(
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

const STATEMENTS: Record<Environment, { suspect: Sql<Row>; adjusted: Sql<Row> }> = {
  live: { suspect: suspect(IS_LIVE), adjusted: adjusted(IS_LIVE) },
  test: { suspect: suspect(IS_TEST), adjusted: adjusted(IS_TEST) },
}

export const mispricedTrades =
  (reader: Reader, environment: Environment): Look =>
  async () => {
    const statements = STATEMENTS[environment]
    const asConfirmed = await firstOf(reader, statements.suspect, 'is confirmed as')
    const asAdjusted = await firstOf(reader, statements.adjusted, 'is adjusted to')
    return [...asConfirmed, ...asAdjusted].slice(0, MISPRICED_MAX)
  }

async function firstOf(reader: Reader, statement: Sql<Row>, verb: string): Promise<Finding[]> {
  const found: Finding[] = []
  for (let after = ''; ; ) {
    const rows = await reader.all(statement, { after, limit: TRADES_PER_READ })
    found.push(...rows.flatMap((row) => mispriced(row, verb) ?? []))
    const last = rows.at(-1)
    if (found.length >= MISPRICED_MAX || rows.length < TRADES_PER_READ || !last) return found
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
  const next = ['tranche', 'execution', 'show', executionId]
  const message = `${verb} ${figures}, ${faultWords(odd, market)}`
  return ticket('trade_price', `trade ${executionId}`, message, { tenant: tenantOf(row), next })
}

function faultWords({ fault }: OddPrice, market: Price | null): string {
  if (fault === 'contradicted') return 'which contradict each other: ask the partner which of them is wrong'
  const than = market === null ? 'which no market has had' : `while the market was at ${formatPrice(market)}`
  return `${than}: ask the partner what unit its figures have`
}
