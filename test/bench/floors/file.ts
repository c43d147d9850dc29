// A process with hand-written loops for the writes of our transactions: prepared statements on the product's own
// schema, in better-sqlite3, as durable as ours. They check no rule, read nothing unnecessary, and answer nobody.

import SQLite from 'better-sqlite3'
import { machine } from '../../../src/machine.ts'
import { configure } from '../../../src/store/sqlite/file/connection.ts'
import { TABLES } from '../../../src/store/tables.ts'
import { type RawJob, serveRaw } from '../helper.ts'

/** Prepares work on an open database. It returns a function that does one item, by its number. */
type RawWork = (db: SQLite.Database, count: number) => (i: number) => void

// Confirmations: the execution is read and settled, the trade is written, the window's ledger updated.

type Execution = { tenant_id: number; plan_id: number; window_id: number; amount_usd: number }

const confirm: RawWork = (db, count) => {
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
    sql.trade.run({ ...row, order: `order-${id}`, now: machine.clock(), digest: 'd'.repeat(64) })
    sql.window.run(amount_usd, amount_usd, window_id)
  }
}

// A pass, in the order in which the plans lie in the file: each schedule is read and advanced, an execution is written,
// its amount reserved.

const SLOT_MS = 12 * 3_600_000
const TRANCHE = 700_000_000

type Schedule = { window_id: number; window_start: number; tranche_index: number; limit_price: number }

const pass: RawWork = (db) => {
  const tenant = db.prepare<[], number>('select tenant_id from plans limit 1').pluck().get()
  const sql = {
    schedule: db.prepare<[number], Schedule>(
      'select window_id, window_start, tranche_index, limit_price from schedules where plan_id = ?',
    ),
    moveOn: db.prepare(
      `update schedules set next_run_at = :next, limit_price = :limit, clock_at = :next, fireable = fireable - :amount,
         tranche_index = tranche_index + 1, units_fired = units_fired + 1 where plan_id = :plan`,
    ),
    execution: db.prepare(
      `insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index, amount_usd,
         trigger_kind, slot, units, price, created_at, status)
       values (:id, :tenant, :plan, :window_id, :window_start, :tranche_index, :amount, 'limit', 0, 1, :price, :now,
         'pending')`,
    ),
    reserve: db.prepare('update windows set reserved = reserved + ? where window_id = ?'),
  }
  const time = machine.clock().toString(16).padStart(12, '0')
  return (i) => {
    const plan = i + 1
    const { limit_price, ...schedule } = sql.schedule.get(plan) as Schedule
    const now = machine.clock()
    const id = `exec_${time}${i.toString(16).padStart(20, '0')}`
    sql.moveOn.run({ plan, next: now + SLOT_MS, limit: limit_price - 1, amount: TRANCHE })
    sql.execution.run({ ...schedule, id, tenant, plan, amount: TRANCHE, price: limit_price, now })
    sql.reserve.run(TRANCHE, schedule.window_id)
  }
}

// New plans: the user is read; the plan, its first window and its schedule are written.

const DAY_MS = 86_400_000
const USD = 100_000_000

const plan: RawWork = (db) => {
  const sql = {
    users: db.prepare<[], number>('select count(*) from users').pluck(),
    user: db.prepare<[string], { user_id: number; tenant_id: number }>(
      'select user_id, tenant_id from users where partner_user_id = ?',
    ),
    insert: db.prepare(
      `insert into plans (tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled, start_date,
         status, created_at, updated_at)
       values (:tenant_id, :user_id, :name, :amount, 'daily', 1, :now, 'active', :now, :now)`,
    ),
    window: db.prepare(
      `insert into windows (plan_id, window_start, window_end, budget) values (:plan, :now, :end, :amount)`,
    ),
    schedule: db.prepare(
      `insert into schedules (plan_id, window_id, awake, next_run_at, window_start, window_end, budget, fireable,
         floor, tranche_index, slot, extras_left, next_extra_at)
       values (:plan, :window, 1, :now, :now, :end, :amount, :amount, :floor, 0, 0, 3, :now)`,
    ),
  }
  const users = sql.users.get() ?? 0
  return (i) => {
    const user = sql.user.get(`u${1 + (i % users)}`)
    const now = machine.clock()
    const times = { now, end: now + DAY_MS, amount: 60 * USD }
    const plan = sql.insert.run({ ...user, ...times, name: `new-${i}` }).lastInsertRowid
    const window = sql.window.run({ plan, ...times }).lastInsertRowid
    sql.schedule.run({ plan, window, ...times, floor: 5 * USD })
  }
}

// Polls: a page of waiting executions is read, leased row by row, and written as JSON.

const PAGE = 500
const LEASE_MS = 300_000

const poll: RawWork = (db) => {
  const tenant = db.prepare<[], number>('select tenant_id from executions limit 1').pluck().get()
  const sql = {
    due: db.prepare<object, { execution_id: string }>(
      `select e.*, p.partner_plan_id, u.partner_user_id
       from executions e join plans p on p.plan_id = e.plan_id join users u on u.user_id = p.user_id
       where e.tenant_id = :tenant and e.status in ('pending', 'sent') and e.lease_expires_at is null
       order by e.created_at, e.execution_id limit :page`,
    ),
    lease: db.prepare(
      `update executions set status = 'sent', delivered_count = delivered_count + 1, lease_expires_at = :lease
       where execution_id = :id`,
    ),
  }
  return () => {
    const due = sql.due.all({ tenant, page: PAGE })
    if (due.length < PAGE) throw new Error(`${due.length} executions are due, and a poll takes ${PAGE}`)
    const lease = machine.clock() + LEASE_MS
    for (const { execution_id } of due) sql.lease.run({ id: execution_id, lease })
    JSON.stringify(due)
  }
}

// Every row of a database read once, as arrays of exact integers, and discarded.

const rows: RawWork = (db) => {
  const reads = TABLES.map(({ name }) => db.prepare(`select * from ${name}`).safeIntegers().raw())
  return (i) => {
    for (const _ of reads[i]?.iterate() ?? []);
  }
}

const WORKS: Record<RawJob['work'], RawWork> = { confirm, pass, plan, poll, rows }

serveRaw(({ work, database, count, perCommit }) => {
  const db = new SQLite(database)
  configure(db)
  const [begin, commit] = [db.prepare('begin immediate'), db.prepare('commit')]
  const one = WORKS[work](db, count)
  return {
    run() {
      for (let i = 0; i < count; ) {
        begin.run()
        for (const end = Math.min(count, i + perCommit); i < end; i++) one(i)
        commit.run()
      }
    },
    close: () => void db.close(),
  }
})
