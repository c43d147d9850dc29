// New plans by hand: the users are read; the plans, their first windows and their schedules are written.

import { machine } from '../../../../src/machine.ts'
import type { RawWork } from './raw.ts'
import { ask, transaction } from './statements.ts'

const DAY_MS = 86_400_000
const USD = 100_000_000
const AMOUNT = 60 * USD

const USERS = {
  name: 'users',
  text: `select user_id, tenant_id from users where partner_user_id = any($1) and tenant_id = $2
    order by user_id for no key update`,
}
const PLANS = {
  name: 'plans',
  text: `with plan as (
      insert into plans (tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled, start_date,
        status, created_at, updated_at)
      select $1, n.user_id, n.name, ${AMOUNT}, 'daily', 1, $4, 'active', $4, $4
      from unnest($2::bigint[], $3::text[]) n (user_id, name) returning plan_id),
    window_of as (
      insert into windows (plan_id, window_start, window_end, budget)
      select plan_id, $4, $5, ${AMOUNT} from plan returning plan_id, window_id)
    insert into schedules (plan_id, window_id, awake, next_run_at, window_start, window_end, budget, fireable, floor,
      tranche_index, slot, extras_left, next_extra_at)
    select plan_id, window_id, 1, $4, $4, $5, ${AMOUNT}, ${AMOUNT}, ${5 * USD}, 0, 0, 3, $4 from window_of`,
}

export const rawPlans: RawWork = async (client) => {
  const { rows } = await client.query('select count(*)::int as users, min(tenant_id) as tenant from users')
  const { users, tenant } = rows[0]
  return (client, from, to) => {
    const now = machine.clock()
    const numbers = Array.from({ length: to - from }, (_, i) => from + i)
    const names = numbers.map((i) => `u${1 + (i % users)}`)
    return transaction(
      client,
      () => ask(client, USERS, [[...new Set(names)], tenant]),
      ({ rows }: { rows: { user_id: string }[] }) => [
        ask(client, PLANS, [
          tenant,
          numbers.map((_, i) => rows[i % rows.length]?.user_id),
          numbers.map((i) => `new-${i}`),
          now,
          now + DAY_MS,
        ]),
      ],
    )
  }
}
