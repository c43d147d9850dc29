// The trades of a month by hand: every row is read, as arrays of exact integers, and nothing is made of it.

import type { RawWork } from './raw.ts'

/** The columns and rows of the export, in its order, as they lie in the file. */
export const TRADES_BY_HAND = `select d.recorded_at, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id,
    d.execution_id, d.partner_order_id, d.status, d.usd_amount, d.btc_amount, d.execution_price, d.partner_fee_usd,
    d.executed_at, d.failure_reason
  from trades d join tenants t on t.tenant_id = d.tenant_id join users u on u.user_id = d.user_id
    join plans p on p.plan_id = d.plan_id
  order by d.recorded_at, d.execution_id`

export const rawTrades: RawWork = (db, count) => {
  const trades = db.prepare(TRADES_BY_HAND).safeIntegers().raw()
  let rows: IterableIterator<unknown> | undefined
  return (i) => {
    rows ??= trades.iterate()
    if (rows.next().done) throw new Error(`${i} trades are there, and ${count} are to be read`)
    // No statement may follow, not even the commit, while rows are left to be read.
    if (i === count - 1) rows.return?.()
  }
}
