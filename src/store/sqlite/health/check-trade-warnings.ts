// Fills that deserve a look: their figures contradict each other.

import { type Finding, ticket } from '../../../core/findings.ts'
import type { Instant } from '../../../core/instant.ts'
import { formatBtc, formatPrice, formatUsd } from '../../../core/money.ts'
import { isFill, isMispriced } from '../../../core/report.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type TradeRow, tradeOf } from '../../rows/trade.ts'
import { IS_LIVE } from '../../sql/expressions.ts'
import type { Database } from '../file/connection.ts'

/** More of them say nothing new. */
const MISPRICED_MAX = 20

/** What was adjusted is an operator's word, and compared with nothing. */
export function mispricedTrades(db: Database): (now: Instant) => Finding[] {
  const sql = db.prepare<[], TradeRow & TenantRow>(
    // The floats only choose what is worth an exact look.
    `select t.*, d.* from trades d join tenants t on t.tenant_id = d.tenant_id
     where ${IS_LIVE} and abs(d.usd_amount * 1e8 - cast(d.btc_amount as real) * d.execution_price) > 0.049 * d.usd_amount * 1e8
       and not exists (select 1 from adjustments a where a.execution_id = d.execution_id)
     order by d.execution_id`,
  )
  return () => {
    const found: Finding[] = []
    for (const row of sql.iterate()) {
      const { executionId, report } = tradeOf(row)
      if (!isFill(report) || !isMispriced(report)) continue
      const { usdAmount, btcAmount, executionPrice } = report
      const message =
        `says ${formatUsd(usdAmount)} USD for ${formatBtc(btcAmount)} BTC at ${formatPrice(executionPrice)}, ` +
        'which contradict each other: ask the partner which of them is wrong'
      const next = ['tranche', 'execution', 'show', executionId]
      found.push(ticket('trade_price', `trade ${executionId}`, message, { tenant: tenantOf(row), next }))
      if (found.length === MISPRICED_MAX) break
    }
    return found
  }
}
