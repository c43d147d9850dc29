// Confirmations by hand: the execution is read and settled, the trade is written, the window's ledger moved.

import { machine } from '../../../../src/machine.ts'
import type { RawWork } from './raw.ts'

type Execution = { tenant_id: number; plan_id: number; window_id: number; amount_usd: number }

const DIGEST = 'd'.repeat(64)

export const rawConfirmations: RawWork = (db, count) => {
  const ids = db
    .prepare<[number], string>(`select execution_id from executions where status = 'sent' limit ?`)
    .pluck()
    .all(count)
  if (ids.length < count)
    throw new Error(`${ids.length} executions are out, and ${count} are to be confirmed`)
  const sql = {
    execution: db.prepare<[string], Execution>(
      'select tenant_id, plan_id, window_id, amount_usd from executions where execution_id = ?',
    ),
    settle: db.prepare(`update executions set status = 'filled' where execution_id = ?`),
    trade: db.prepare(
      `insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount, btc_amount,
         execution_price, recorded_at, digest)
       values (:execution_id, :tenant_id, :plan_id, (select user_id from plans where plan_id = :plan_id), :order,
         'filled', :amount_usd, 20000, 5000000000000, :now, :digest)`,
    ),
    window: db.prepare('update windows set reserved = reserved - ?, spent = spent + ? where window_id = ?'),
  }
  return (i) => {
    const id = ids[i] as string
    const execution = sql.execution.get(id) as Execution
    const { amount_usd, window_id, tenant_id, plan_id } = execution
    sql.settle.run(id)
    const row = { execution_id: id, tenant_id, plan_id, amount_usd }
    sql.trade.run({ ...row, order: `order-${id}`, now: machine.clock(), digest: DIGEST })
    sql.window.run(amount_usd, amount_usd, window_id)
  }
}
