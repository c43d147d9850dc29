// Fills that deserve a look: their figures contradict each other.

import { type Finding, ticket } from '../../../core/findings.ts'
import { formatBtc, formatPrice, formatUsd } from '../../../core/money.ts'
import { isFill, isMispriced } from '../../../core/report.ts'
import type { Look } from '../../check.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type TradeRow, tradeOf } from '../../rows/trade.ts'
import { IS_LIVE } from '../../sql/expressions.ts'
import { breathe, type Reader, sql } from '../reader.ts'

/** More of them say nothing new. */
const MISPRICED_MAX = 20

const TRADES_PER_READ = 1_000

// The floats only choose what is worth an exact look. What was adjusted is an operator's word, and compared with nothing.
const SUSPECT = sql<TradeRow & TenantRow>(
  `select t.*, d.* from trades d join tenants t on t.tenant_id = d.tenant_id
   where ${IS_LIVE} and d.execution_id > :after
     and abs(d.usd_amount * 1e8 - cast(d.btc_amount as double precision) * d.execution_price)
       > 0.049 * d.usd_amount * 1e8
     and not exists (select 1 from adjustments a where a.execution_id = d.execution_id)
   order by d.execution_id limit :limit`,
)

export const mispricedTrades =
  (reader: Reader): Look =>
  async () => {
    const found: Finding[] = []
    for (let after = ''; ; ) {
      const rows = await reader.all(SUSPECT, { after, limit: TRADES_PER_READ })
      found.push(...rows.flatMap((row) => mispriced(row) ?? []))
      const last = rows.at(-1)
      if (found.length >= MISPRICED_MAX || rows.length < TRADES_PER_READ || !last)
        return found.slice(0, MISPRICED_MAX)
      after = last.execution_id
      await breathe()
    }
  }

function mispriced(row: TradeRow & TenantRow): Finding | null {
  const { executionId, report } = tradeOf(row)
  if (!isFill(report) || !isMispriced(report)) return null
  const { usdAmount, btcAmount, executionPrice } = report
  const message =
    `says ${formatUsd(usdAmount)} USD for ${formatBtc(btcAmount)} BTC at ${formatPrice(executionPrice)}, ` +
    'which contradict each other: ask the partner which of them is wrong'
  const next = ['tranche', 'execution', 'show', executionId]
  return ticket('trade_price', `trade ${executionId}`, message, { tenant: tenantOf(row), next })
}
