// A process with hand-written loops for the writes of our transactions: prepared statements on the product's own
// schema, sent in a pipeline, a page of rows in each. They check no rule, read nothing unnecessary, and answer nobody.

import pg from 'pg'
import { machine } from '../../../src/machine.ts'
import { type RawJob, serveRaw } from '../helper.ts'

/** The statement that locks rows goes with the begin, the others with the commit: two round trips. */
type Transaction = { read: Statement; write: Statement[] }
type Statement = [text: string, values: unknown[]]
/** Work on an open database. It returns a function that makes the statements for a range of items. */
type RawWork = (client: pg.Client, count: number) => Promise<(from: number, to: number) => Transaction>

// Confirmations: executions are read and settled, trades are written, the windows' ledgers updated.

const confirm: RawWork = async (client, count) => {
  const { rows } = await client.query<{ id: string }>(
    `select execution_id as id from executions where status = 'sent' order by execution_id limit ${count}`,
  )
  if (rows.length < count)
    throw new Error(`${rows.length} executions are out, and ${count} are to be confirmed`)
  return (from, to) => {
    const ids = rows.slice(from, to).map(({ id }) => id)
    return {
      read: [
        'select 1 from executions where execution_id = any($1) order by execution_id for no key update',
        [ids],
      ],
      write: [
        [`update executions set status = 'filled' where execution_id = any($1)`, [ids]],
        [
          `insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount,
             btc_amount, execution_price, recorded_at, digest)
           select e.execution_id, e.tenant_id, e.plan_id, p.user_id, 'order-' || e.execution_id, 'filled',
             e.amount_usd, 20000, 5000000000000, $2, $3
           from executions e join plans p on p.plan_id = e.plan_id where e.execution_id = any($1)`,
          [ids, machine.clock(), 'd'.repeat(64)],
        ],
        [
          `update windows w set reserved = w.reserved - e.amount_usd, spent = w.spent + e.amount_usd
           from executions e where e.execution_id = any($1) and w.window_id = e.window_id`,
          [ids],
        ],
      ],
    }
  }
}

// A pass, in the order of the plans: schedules are locked, executions are written, their amounts reserved, and the
// schedules advanced.

const SLOT_MS = 12 * 3_600_000
const TRANCHE = 700_000_000

const pass: RawWork = async (client) => {
  const { rows } = await client.query('select tenant_id as tenant from plans limit 1')
  const time = machine.clock().toString(16).padStart(12, '0')
  return (from, to) => {
    const now = machine.clock()
    const plans = Array.from({ length: to - from }, (_, i) => from + i + 1)
    return {
      read: ['select 1 from schedules where plan_id = any($1) order by plan_id for no key update', [plans]],
      write: [
        [
          `insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index, amount_usd,
             trigger_kind, slot, units, price, created_at, status)
           select 'exec_${time}' || lpad(to_hex(plan_id), 20, '0'), $2, plan_id, window_id, window_start,
             tranche_index, ${TRANCHE}, 'limit', 0, 1, 4000000000000, $3, 'pending'
           from schedules where plan_id = any($1)`,
          [plans, rows[0].tenant, now],
        ],
        [
          `update windows w set reserved = reserved + ${TRANCHE} from schedules s
           where s.plan_id = any($1) and w.window_id = s.window_id`,
          [plans],
        ],
        [
          `update schedules set next_run_at = $2, limit_price = limit_price - 1, clock_at = $2,
             fireable = fireable - ${TRANCHE}, tranche_index = tranche_index + 1, units_fired = units_fired + 1
           where plan_id = any($1)`,
          [plans, now + SLOT_MS],
        ],
      ],
    }
  }
}

// New plans: the users are read; the plans, their first windows and their schedules are written.

const DAY_MS = 86_400_000
const USD = 100_000_000
const AMOUNT = 60 * USD

const plan: RawWork = async (client) => {
  const { rows } = await client.query('select count(*)::int as users, min(tenant_id) as tenant from users')
  const { users, tenant } = rows[0]
  return (from, to) => {
    const now = machine.clock()
    const numbers = Array.from({ length: to - from }, (_, i) => from + i)
    const names = numbers.map((i) => `u${1 + (i % users)}`)
    return {
      read: [
        `select 1 from users where partner_user_id = any($1) and tenant_id = $2 order by user_id for no key update`,
        [names, tenant],
      ],
      write: [
        [
          `with plan as (
             insert into plans (tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled,
               start_date, status, created_at, updated_at)
             select $1, u.user_id, n.name, ${AMOUNT}, 'daily', 1, $4, 'active', $4, $4
             from unnest($2::text[], $3::text[]) n (user_name, name)
               join users u on u.tenant_id = $1 and u.partner_user_id = n.user_name
             returning plan_id),
           window_of as (
             insert into windows (plan_id, window_start, window_end, budget)
             select plan_id, $4, $5, ${AMOUNT} from plan returning plan_id, window_id)
           insert into schedules (plan_id, window_id, awake, next_run_at, window_start, window_end, budget, fireable,
             floor, tranche_index, slot, extras_left, next_extra_at)
           select plan_id, window_id, 1, $4, $4, $5, ${AMOUNT}, ${AMOUNT}, ${5 * USD}, 0, 0, 3, $4 from window_of`,
          [tenant, names, numbers.map((i) => `new-${i}`), now, now + DAY_MS],
        ],
      ],
    }
  }
}

const WORKS: Partial<Record<RawJob['work'], RawWork>> = { confirm, pass, plan }

async function connected(database: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database, pipeline: true } as pg.ClientConfig)
  await client.connect()
  // As in the product: a query plan made while a table was small would otherwise scan the whole table.
  await client.query('set search_path to tranche; set enable_seqscan to off; set jit to off')
  return client
}

/** Prepares a statement once on each connection, under the first words that tell it from the others. */
const ask = (client: pg.Client, [text, values]: Statement): Promise<unknown> =>
  client.query({ name: text.trimStart().slice(0, 40), text, values })

serveRaw(async ({ work, database, count, perCommit, connections = 1 }) => {
  const clients = await Promise.all(Array.from({ length: connections }, () => connected(database)))
  const statements = await WORKS[work]?.(clients[0] as pg.Client, count)
  if (!statements) throw new Error(`there is no loop for ${work}`)
  let next = 0
  const hand = async (client: pg.Client): Promise<void> => {
    while (next < count) {
      const from = next
      next = Math.min(count, from + perCommit)
      const { read, write } = statements(from, next)
      await Promise.all([client.query('begin'), ask(client, read)])
      await Promise.all([...write.map((each) => ask(client, each)), client.query('commit')])
    }
  }
  return {
    run: async () => void (await Promise.all(clients.map(hand))),
    close: async () => {
      for (const client of clients) await client.end()
    },
  }
})
