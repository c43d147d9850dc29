// What must be true of the ledger however many hosts wrote to it: read by questions of this file's own, past the
// program.

import assert from 'node:assert/strict'
import { LEASE_MS } from '../purchases.ts'
import type { Cluster } from './cluster.ts'
import type { Instruction, Partner } from './partner.ts'

type Row = {
  execution_id: string
  status: string
  delivered_count: string
  lease: string | null
  trades: string
  order_id: string | null
  trade_status: string | null
  usd: string | null
  late: string
}

const ROWS = `
  select e.execution_id, e.status, e.delivered_count, e.lease_expires_at as lease,
    (select count(*) from tranche.trades t where t.execution_id = e.execution_id) as trades,
    t.partner_order_id as order_id, t.status as trade_status, t.usd_amount as usd,
    (select count(*) from tranche.late_reports l where l.execution_id = e.execution_id) as late
  from tranche.executions e left join tranche.trades t using (execution_id)`
const IN_TENANT = `tenant_id = (select tenant_id from tranche.tenants where partner_slug = 'acme' and environment = $1)`

/** Asserts of what was answered since the last time that all of it is there, once, as it was answered. */
export async function assertAnswered(cluster: Cluster, partner: Partner): Promise<void> {
  const touched = [...partner.touched]
  partner.touched.clear()
  if (touched.length === 0) return
  const ids = touched.map(({ id }) => id)
  const rows = await cluster.ask<Row>(`${ROWS} where e.execution_id = any($1)`, [ids])
  const found = new Map(rows.map((row) => [row.execution_id, row]))
  for (const one of touched) assertInstruction(one, found.get(one.id))
}

function assertInstruction({ id, leases, report, outcome }: Instruction, row: Row | undefined): void {
  const last = Math.max(...leases.keys())
  assert.ok(row && Number(row.delivered_count) >= last, `the delivery ${last} of ${id} is there`)
  if (row.status === 'sent' && Number(row.delivered_count) === last)
    assert.equal(Number(row.lease), leases.get(last), `the lease of ${id} is there`)
  const byNumber = [...leases].sort(([a], [b]) => a - b)
  for (const [i, [number, lease]] of byNumber.entries()) {
    const before = byNumber[i - 1]?.[1] ?? 0
    assert.ok(lease - LEASE_MS >= before, `delivery ${number} of ${id} is made inside the lease before it`)
  }
  if (outcome === 'recorded') {
    assert.deepEqual(
      [row.trades, row.order_id, row.trade_status, row.status],
      ['1', report?.partner_order_id, report?.status, report?.status],
      `the report on ${id} is there`,
    )
    assert.equal(row.usd && Number(row.usd) / UNIT, report?.usd_amount ? Number(report.usd_amount) : null)
  }
  if (outcome === 'late') {
    assert.deepEqual([row.trades, row.status], ['0', 'cancelled'], `${id} stays cancelled`)
    if (report?.status !== 'failed') assert.ok(Number(row.late) >= 1, `the late report on ${id} is kept`)
  }
}

const UNIT = 1e8

/** How long after a poll was given up its service, or the server, may still finish it. */
const STRAGGLE_MS = 15_000

/** Asserts of all that a partner has that it is what it was answered, and that nothing is there that nobody did. */
export async function assertWhole(cluster: Cluster, partner: Partner): Promise<void> {
  const { environment, instructions, users, plans } = partner
  const names = await cluster.ask<{ name: string }>(
    `select partner_user_id as name from tranche.users where ${IN_TENANT}`,
    [environment],
  )
  assert.deepEqual([...users.difference(new Set(names.map(({ name }) => name)))], [], 'users are there')
  const found = await cluster.ask<{ name: string; status: string }>(
    `select partner_plan_id as name, status from tranche.plans where ${IN_TENANT}`,
    [environment],
  )
  const statuses = new Map(found.map(({ name, status }) => [name, status]))
  for (const [plan, status] of plans)
    assert.equal(statuses.get(plan), status, `${plan} is as it was answered`)
  const rows = await cluster.ask<Row>(`${ROWS} where e.${IN_TENANT}`, [environment])
  for (const row of rows) {
    const one = instructions.get(row.execution_id)
    if (one) assertInstruction(one, row)
    assertAccounted(row, one, partner)
  }
  const there = new Set(rows.map(({ execution_id }) => execution_id))
  assert.deepEqual([...new Set(instructions.keys()).difference(there)], [], 'what was delivered is there')
}

/** Each delivery was answered, or lies in a poll whose answer was lost; each trade was reported. */
function assertAccounted(row: Row, one: Instruction | undefined, { environment, lostPolls }: Partner): void {
  const { execution_id: id } = row
  const delivered = Number(row.delivered_count)
  const unseen = delivered - (one?.leases.size ?? 0)
  assert.ok(unseen >= 0 && unseen <= lostPolls.length, `${id}: ${unseen} deliveries that nobody was answered`)
  // A sandbox has a time of its own, and of what was cancelled or confirmed the lease says nothing more.
  if (environment === 'live' && row.status === 'sent' && one?.leases.has(delivered) !== true) {
    const at = Number(row.lease) - LEASE_MS
    const isLost = lostPolls.some(({ from, to }) => at >= from - 1 && at <= to + STRAGGLE_MS)
    assert.ok(isLost, `${id} was delivered at ${at}, and no poll of that time is missing its answer`)
  }
  if (row.order_id !== null) assert.equal(row.order_id, one?.report?.partner_order_id, `${id} was reported`)
}

/** Questions to which the answer is no row, whatever happened. */
const NEVER: Record<string, string> = {
  'a tranche fired twice': `select plan_id, window_start, tranche_index from tranche.executions
    group by plan_id, window_start, tranche_index having count(*) > 1`,
  'an order on record twice': `select tenant_id, partner_order_id from tranche.trades
    group by tenant_id, partner_order_id having count(*) > 1`,
  'two trades of one execution': `select execution_id from tranche.trades group by execution_id having count(*) > 1`,
  'a window above its budget': `select window_id, budget, reserved, spent, released from tranche.windows
    where reserved + spent + released > budget`,
  'a window that does not reserve what is open': `select w.window_id, w.reserved, sum(e.amount_usd)
    from tranche.windows w left join tranche.executions e on e.window_id = w.window_id and e.status in ('pending', 'sent')
    group by w.window_id having w.reserved <> coalesce(sum(e.amount_usd), 0)`,
  'a window that has not spent what was bought': `select w.window_id, w.spent, sum(t.usd_amount)
    from tranche.windows w left join tranche.executions e using (window_id) left join tranche.trades t using (execution_id)
    group by w.window_id having w.spent + w.excess <> coalesce(sum(t.usd_amount), 0)`,
  'a plan with two present windows': `select plan_id from tranche.windows where closed_at is null
    group by plan_id having count(*) > 1`,
  'a trade dated behind a later one': `select a.execution_id from tranche.trades a join tranche.executions e using (execution_id)
    where a.recorded_at < e.created_at`,
  'a deadlock': `select datname, deadlocks from pg_stat_database where datname = current_database() and deadlocks > 0`,
}

export async function assertRules(cluster: Cluster): Promise<void> {
  for (const [what, sql] of Object.entries(NEVER)) assert.deepEqual(await cluster.ask(sql), [], what)
}
