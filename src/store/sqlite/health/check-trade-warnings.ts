// Fills that deserve a look: reported and refused, or with figures that contradict each other.

import { formatInstant, type Instant } from '../../../core/instant.ts'
import { formatBtc, formatPrice, formatUsd } from '../../../core/money.ts'
import { isFill, isMispriced } from '../../../core/report.ts'
import type { Finding } from '../../check.ts'
import { instant } from '../../rows/instant.ts'
import { type TradeRow, tradeOf } from '../../rows/trade.ts'
import { IN_REAL_TIME, TENANT_NAME } from '../expressions.ts'
import type { Database } from '../file/connection.ts'

/** More of them say nothing new. */
const MISPRICED_MAX = 20

/** One finding for each tenant: real money may have moved, and nobody has decided on it. */
export function undecidedLateFills(db: Database): (now: Instant) => Finding[] {
  type Row = { place: string; n: bigint; first: bigint | null; unkept: bigint }
  const sql = db.prepare<[], Row>(
    `select ${TENANT_NAME} as place, sum(x.n) as n, min(x.first) as first, sum(x.unkept) as unkept
     from (
       select tenant_id, count(*) as n, min(received_at) as first, 0 as unkept
       from late_reports where decided_at is null group by tenant_id
       union all select tenant_id, 0, null, sum(unkept_reports)
       from executions where unkept_reports > 0 group by tenant_id) x
     join tenants t using (tenant_id) where ${IN_REAL_TIME} group by tenant_id order by tenant_id`,
  )
  return () =>
    sql.all().map(({ place, n, first, unkept }) => {
      const since = first === null ? '' : `, the oldest since ${formatInstant(instant(first))}`
      const more = unkept === 0n ? '' : `; ${unkept} more were counted and not kept`
      const message = `${n} reported and refused, and not decided on${since}${more}`
      return { kind: 'late_fills', subject: place, message }
    })
}

/** What was adjusted is an operator's word, and compared with nothing. */
export function mispricedTrades(db: Database): (now: Instant) => Finding[] {
  const sql = db.prepare<[], TradeRow>(
    // The floats only choose what is worth an exact look.
    `select * from trades d
     where abs(d.usd_amount * 1e8 - cast(d.btc_amount as real) * d.execution_price) > 0.049 * d.usd_amount * 1e8
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
      found.push({ kind: 'trade_price', subject: `trade ${executionId}`, message })
      if (found.length === MISPRICED_MAX) break
    }
    return found
  }
}
