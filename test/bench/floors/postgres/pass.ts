// A pass by hand, in the order of the plans: schedules are locked, read and moved on, executions are written, their
// amounts reserved.

import { machine } from '../../../../src/machine.ts'
import type { RawWork } from './raw.ts'
import { ask, transaction } from './statements.ts'

const SLOT_MS = 12 * 3_600_000
const TRANCHE = 700_000_000

const READ = {
  name: 'read',
  text: `select plan_id, window_id, window_start, tranche_index, limit_price from schedules where plan_id = any($1)
    order by plan_id for no key update`,
}
const MOVE_ON = {
  name: 'move-on',
  text: `update schedules s set next_run_at = $2, limit_price = n.limit_price, clock_at = $2,
      fireable = s.fireable - ${TRANCHE}, tranche_index = s.tranche_index + 1, units_fired = s.units_fired + 1
    from unnest($1::bigint[], $3::bigint[]) n (plan_id, limit_price) where s.plan_id = n.plan_id`,
}
const EXECUTIONS = {
  name: 'executions',
  text: `insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index, amount_usd,
      trigger_kind, slot, units, price, created_at, status)
    select n.id, $7, n.plan_id, n.window_id, n.window_start, n.tranche_index, ${TRANCHE}, 'limit', 0, 1, 4000000000000,
      $6, 'pending'
    from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
      n (id, plan_id, window_id, window_start, tranche_index)`,
}
const RESERVE = {
  name: 'reserve',
  text: `update windows set reserved = reserved + ${TRANCHE} where window_id = any($1)`,
}

type Schedule = {
  plan_id: string
  window_id: string
  window_start: string
  tranche_index: string
  limit_price: string
}

export const rawPass: RawWork = async (client) => {
  const { rows } = await client.query('select tenant_id as tenant from plans limit 1')
  const tenant = rows[0].tenant
  const time = machine.clock().toString(16).padStart(12, '0')
  return (client, from, to) => {
    const now = machine.clock()
    const plans = Array.from({ length: to - from }, (_, i) => from + i + 1)
    const ids = plans.map((plan) => `exec_${time}${plan.toString(16).padStart(20, '0')}`)
    return transaction(
      client,
      () => ask(client, READ, [plans]),
      ({ rows }: { rows: Schedule[] }) => {
        const of = (column: keyof Schedule) => rows.map((row) => row[column])
        const limits = rows.map(({ limit_price }) => Number(limit_price) - 1)
        return [
          ask(client, MOVE_ON, [of('plan_id'), now + SLOT_MS, limits]),
          ask(client, EXECUTIONS, [
            ids,
            of('plan_id'),
            of('window_id'),
            of('window_start'),
            of('tranche_index'),
            now,
            tenant,
          ]),
          ask(client, RESERVE, [of('window_id')]),
        ]
      },
    )
  }
}
