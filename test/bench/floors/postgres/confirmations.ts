// Confirmations by hand: executions are read and settled, trades are written, the windows' ledgers moved.

import { machine } from '../../../../src/machine.ts'
import type { RawWork } from './raw.ts'
import { ask, transaction } from './statements.ts'

const READ = {
  name: 'read',
  text: `select e.execution_id, e.window_id, e.amount_usd from executions e where e.execution_id = any($1)
    order by e.execution_id for no key update`,
}
const SETTLE = {
  name: 'settle',
  text: `update executions set status = 'filled' where execution_id = any($1)`,
}
const TRADES = {
  name: 'trades',
  text: `insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount, btc_amount,
      execution_price, recorded_at, digest)
    select e.execution_id, e.tenant_id, e.plan_id, p.user_id, 'order-' || e.execution_id, 'filled', e.amount_usd, 20000,
      5000000000000, $2, $3
    from executions e join plans p on p.plan_id = e.plan_id where e.execution_id = any($1)`,
}
const WINDOWS = {
  name: 'windows',
  text: `update windows w set reserved = w.reserved - n.amount, spent = w.spent + n.amount
    from unnest($1::bigint[], $2::bigint[]) n (window_id, amount) where w.window_id = n.window_id`,
}
const DIGEST = 'd'.repeat(64)

type Execution = { window_id: string; amount_usd: string }

export const rawConfirmations: RawWork = async (client, count) => {
  const { rows } = await client.query(
    `select execution_id as id from executions where status = 'sent' order by execution_id limit ${count}`,
  )
  if (rows.length < count)
    throw new Error(`${rows.length} executions are out, and ${count} are to be confirmed`)
  const ids = rows.map(({ id }: { id: string }) => id)
  return (client, from, to) => {
    const some = ids.slice(from, to)
    return transaction(
      client,
      () => ask(client, READ, [some]),
      ({ rows }: { rows: Execution[] }) => [
        ask(client, SETTLE, [some]),
        ask(client, TRADES, [some, machine.clock(), DIGEST]),
        ask(client, WINDOWS, [
          rows.map(({ window_id }) => window_id),
          rows.map(({ amount_usd }) => amount_usd),
        ]),
      ],
    )
  }
}
