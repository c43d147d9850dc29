// A process that does by hand what a transaction of ours has to write: prepared statements on the product's own schema,
// sent in a pipeline, a page of rows in each. No rule is checked, nothing is read that need not be, nobody is answered.

import type { QueryResult } from 'pg'
import pg from 'pg'
import { machine } from '../../../src/machine.ts'
import { TABLES } from '../../../src/store/tables.ts'
import type { RawJob } from '../backend.ts'
import { serveRaw, TRADES_BY_HAND } from '../helper.ts'

type Client = pg.Client
/**
 * A piece of work on an open database. What it returns does items from one number up to another, in one transaction.
 */
type RawWork = (
  client: Client,
  count: number,
) => Promise<(client: Client, from: number, to: number) => Promise<void>>

// How the loops on a server ask: prepared statements, in a transaction whose statements do not wait for each other.

type Statement = { name: string; text: string }

const ask = (client: Client, { name, text }: Statement, values: unknown[] = []): Promise<QueryResult> =>
  client.query({ name, text, values })

/** `read` and what it locks go with the begin, `write` with the commit: two round trips. */
async function transaction<T>(
  client: Client,
  read: () => Promise<T>,
  write: (seen: T) => Promise<unknown>[],
): Promise<void> {
  const [, seen] = await Promise.all([client.query('begin'), read()])
  await Promise.all([...write(seen), client.query('commit')])
}

// Confirmations by hand: executions are read and settled, trades are written, the windows' ledgers moved.

const SENT = {
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

const rawConfirmations: RawWork = async (client, count) => {
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
      () => ask(client, SENT, [some]),
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

// A pass by hand, in the order of the plans: schedules are locked, read and moved on, executions are written, their
// amounts reserved.

const SLOT_MS = 12 * 3_600_000
const TRANCHE = 700_000_000

const SCHEDULES = {
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

const rawPass: RawWork = async (client) => {
  const { rows } = await client.query('select tenant_id as tenant from plans limit 1')
  const tenant = rows[0].tenant
  const time = machine.clock().toString(16).padStart(12, '0')
  return (client, from, to) => {
    const now = machine.clock()
    const plans = Array.from({ length: to - from }, (_, i) => from + i + 1)
    const ids = plans.map((plan) => `exec_${time}${plan.toString(16).padStart(20, '0')}`)
    return transaction(
      client,
      () => ask(client, SCHEDULES, [plans]),
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

// New plans by hand: the users are read; the plans, their first windows and their schedules are written.

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

const rawPlans: RawWork = async (client) => {
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

// Polls by hand: a page of what waits is locked, leased in one statement, and written as JSON.

const PAGE = 500
const LEASE_MS = 300_000

const DUE = {
  name: 'due',
  // The page first: joined before it is cut, all that waits would be joined and sorted.
  text: `with page as materialized (
      select * from executions e
      where e.tenant_id = $1 and e.status in ('pending', 'sent') and coalesce(e.lease_expires_at, 0) = 0
      order by coalesce(e.lease_expires_at, 0), e.created_at, e.execution_id limit ${PAGE}
      for no key update skip locked)
    select page.*, p.partner_plan_id, u.partner_user_id
    from page join plans p on p.plan_id = page.plan_id join users u on u.user_id = p.user_id
    order by page.created_at, page.execution_id`,
}
const LEASE = {
  name: 'lease',
  text: `update executions set status = 'sent', delivered_count = delivered_count + 1, lease_expires_at = $2
    where execution_id = any($1)`,
}

const rawPolls: RawWork = async (client) => {
  const { rows } = await client.query('select tenant_id as tenant from executions limit 1')
  const tenant = rows[0].tenant
  return (client) =>
    transaction(
      client,
      () => ask(client, DUE, [tenant]),
      ({ rows }: { rows: { execution_id: string }[] }) => {
        if (rows.length < PAGE) throw new Error(`${rows.length} executions are due, and a poll takes ${PAGE}`)
        JSON.stringify(rows)
        return [
          ask(client, LEASE, [rows.map(({ execution_id }) => execution_id), machine.clock() + LEASE_MS]),
        ]
      },
    )
}

// Every row of a database read once as text, in pages; nothing is made of it.

/** Rows of a cursor that are fetched at once. */
const FETCHED = 1_000

const rawRows: RawWork = async () => async (client, from, to) => {
  for (const { name } of TABLES.slice(from, to)) {
    await client.query('begin')
    await client.query(`declare every no scroll cursor for select * from ${name}`)
    for (;;) {
      const { rows } = await client.query({ text: `fetch ${FETCHED} from every`, rowMode: 'array' })
      if (rows.length < FETCHED) break
    }
    await client.query('commit')
  }
}

// The trades of a month by hand: every row is read as text, in pages, and nothing is made of it.

const rawTrades: RawWork = async (client, count) => async () => {
  await Promise.all([
    client.query('begin'),
    client.query(`declare trades no scroll cursor for ${TRADES_BY_HAND}`),
  ])
  let read = 0
  for (;;) {
    const { rows } = await client.query({ text: `fetch ${FETCHED} from trades`, rowMode: 'array' })
    read += rows.length
    if (rows.length < FETCHED) break
  }
  if (read < count) throw new Error(`${read} trades are there, and ${count} are to be read`)
  await client.query('commit')
}

const WORKS = {
  confirmations: rawConfirmations,
  pass: rawPass,
  plans: rawPlans,
  polls: rawPolls,
  rows: rawRows,
  trades: rawTrades,
} satisfies Record<RawJob['work'], RawWork>

async function connected(database: string): Promise<Client> {
  const client = new pg.Client({ connectionString: database, pipeline: true } as pg.ClientConfig)
  await client.connect()
  // As ours: a plan made while a table was small would otherwise go through all of it.
  await client.query('set search_path to tranche; set enable_seqscan to off; set jit to off')
  return client
}

serveRaw(async ({ work, database, count, perCommit, connections = 1 }) => {
  const clients = await Promise.all(Array.from({ length: connections }, () => connected(database)))
  const some = await WORKS[work](clients[0] as Client, count)
  let next = 0
  const hand = async (client: Client): Promise<void> => {
    while (next < count) {
      const from = next
      next = Math.min(count, from + perCommit)
      await some(client, from, next)
    }
  }
  return {
    run: async () => void (await Promise.all(clients.map(hand))),
    close: async () => {
      for (const client of clients) await client.end()
    },
  }
})
