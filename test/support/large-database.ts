// Large databases put in by SQL, in seconds: users, plans that wait for a price or an hour that does not come,
// executions, trades. What is in the file is checked by its own keys and constraints.

import { DAY_MS, HOUR_MS, type Instant, plus } from '../../src/core/instant.ts'
import { price, usd } from '../../src/core/money.ts'
import { type Database, openFile } from '../../src/store/sqlite/file/connection.ts'

/** The lease of an execution that was sent: longer than any measurement. */
const LEASE_MS = 4 * 60_000

export type Layout = {
  tenantId: number
  /** They share the plans in turns. */
  users: number
  plans: number
  now: Instant
  /**
   * Which price each plan waits for, all of them at most 50,000 USD: one for all, a thousand values in turns, or as
   * many as there are plans, without any order, down to 45,000 USD.
   */
  limits: 'alike' | 'in turns' | 'scattered'
  /** Whether each plan has an execution out, and in which state. */
  executions?: 'pending' | 'sent'
}

const LIMITS: Record<Layout['limits'], string> = {
  alike: ':limit',
  'in turns': ':limit - i % 1000',
  scattered: ':limit - i * 2654435761 % 500000000000',
}

const NUMBERS = 'with recursive n (i) as (values (1) union all select i + 1 from n where i < :count)'
/** As the product makes them: the time first, then what differs. */
const EXECUTION_ID = `printf('exec_%012x%020x', :created_at, i)`

/** Fills a migrated database in one transaction that is not synced. Throws when a key or a constraint is broken. */
export function fill(file: string, work: (db: Database) => void): void {
  const db = openFile(file)
  try {
    db.pragma('synchronous = off')
    db.pragma('foreign_keys = on')
    db.transaction(() => work(db))()
  } finally {
    db.close()
  }
}

/** Adds linked users u1, u2, ... to a database that has none. */
export function addUsers(db: Database, { tenantId, users }: Pick<Layout, 'tenantId' | 'users'>): void {
  db.prepare(
    `${NUMBERS} insert into users (user_id, tenant_id, partner_user_id, consent_version, consent_timestamp, status,
       created_at, updated_at)
     select i, :tenant, 'u' || i, 'v', 0, 'linked', 0, 0 from n`,
  ).run({ count: users, tenant: tenantId })
}

/**
 * Adds weekly plans p1, p2, ... of 200 USD to a database that has none, with their users. Each has fired the first
 * unit of its first slot, and waits for its price, or for nine hours to go by without one.
 */
export function addPlans(db: Database, layout: Layout): void {
  const { plans, now, tenantId, users, limits, executions } = layout
  const values = {
    count: plans,
    users,
    tenant: tenantId,
    now,
    clock: plus(now, 9 * HOUR_MS),
    next: plus(now, 12 * HOUR_MS),
    end: plus(now, 7 * DAY_MS),
    amount: usd('200.00'),
    reserved: executions ? usd('10.00') : 0n,
    floor: usd('5.00'),
    limit: price('50000'),
  }
  addUsers(db, layout)
  db.prepare(
    `${NUMBERS} insert into plans (plan_id, tenant_id, user_id, partner_plan_id, amount_usd, frequency,
       smart_timing_enabled, start_date, status, created_at, updated_at)
     select i, :tenant, 1 + (i - 1) % :users, 'p' || i, :amount, 'weekly', 1, :now, 'active', :now, :now from n`,
  ).run(values)
  db.prepare(
    `${NUMBERS} insert into windows (window_id, plan_id, window_start, window_end, budget, reserved)
     select i, i, :now, :end, :amount, :reserved from n`,
  ).run(values)
  const limit = LIMITS[limits]
  db.prepare(
    `${NUMBERS} insert into schedules (plan_id, window_id, awake, next_run_at, limit_price, clock_at, window_start,
       window_end, budget, fireable, floor, tranche_index, slots, units_per_slot, units_fired, slot,
       reference_price, half_width, extras_left, next_extra_at)
     select i, i, 1, :next, ${limit}, :clock + i % 1000, :now, :end, :amount, :amount - :reserved, :floor, 1, 14, 2,
       1, 0, ${limit}, 0, 3, :now
     from n`,
  ).run(values)
  if (executions) addExecutions(db, layout, executions)
}

function addExecutions(db: Database, { plans, now, tenantId }: Layout, status: 'pending' | 'sent'): void {
  const isSent = status === 'sent'
  db.prepare(
    `${NUMBERS} insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index,
       amount_usd, trigger_kind, slot, units, created_at, status, delivered_count, lease_expires_at)
     select ${EXECUTION_ID}, :tenant, i, i, :created_at, 0, :amount, 'slot_start', 0, 1, :created_at, :status,
       :delivered, :lease from n`,
  ).run({
    count: plans,
    tenant: tenantId,
    created_at: now,
    amount: usd('10.00'),
    status,
    delivered: Number(isSent),
    lease: isSent ? plus(now, LEASE_MS) : null,
  })
}

export type Trades = {
  tenantId: number
  users: number
  plans: number
  trades: number
  /** They were recorded evenly in between, in the order of the plans' turns. */
  start: Instant
  end: Instant
}

/**
 * Adds plans with closed windows, and filled executions of 10 USD with their trades, to a database without any. The
 * digests are made up: `check` would name every trade.
 */
export function addTrades(db: Database, { tenantId, users, plans, trades, start, end }: Trades): void {
  const each = BigInt(Math.ceil(trades / plans))
  const values = {
    count: plans,
    users,
    tenant: tenantId,
    start,
    end,
    budget: each * usd('10.00'),
    amount: usd('1000.00'),
  }
  addUsers(db, { tenantId, users })
  db.prepare(
    `${NUMBERS} insert into plans (plan_id, tenant_id, user_id, partner_plan_id, amount_usd, frequency,
       smart_timing_enabled, start_date, status, created_at, updated_at)
     select i, :tenant, 1 + (i - 1) % :users, 'p' || i, :amount, 'weekly', 1, :start, 'cancelled', :start, :start
     from n`,
  ).run(values)
  db.prepare(
    `${NUMBERS} insert into windows (window_id, plan_id, window_start, window_end, budget, spent, closed_at,
       close_reason)
     select i, i, :start, :end, :budget, :budget, :end, 'ended' from n`,
  ).run(values)
  const filled = {
    count: trades,
    // As an integer: the driver binds a number as a real, and its share would be one.
    plans: BigInt(plans),
    tenant: tenantId,
    created_at: start,
    step: Math.floor((end - start) / trades),
    amount: usd('10.00'),
    btc: 20_000n,
    price: price('50000'),
  }
  db.prepare(
    `${NUMBERS} insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index,
       amount_usd, trigger_kind, slot, units, created_at, status, delivered_count, lease_expires_at)
     select ${EXECUTION_ID}, :tenant, 1 + (i - 1) % :plans, 1 + (i - 1) % :plans, :created_at, (i - 1) / :plans,
       :amount, 'slot_start', 0, 1, :created_at, 'filled', 1, :created_at from n`,
  ).run(filled)
  db.prepare(
    `${NUMBERS} insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount,
       btc_amount, execution_price, recorded_at, digest)
     select ${EXECUTION_ID}, :tenant, p.plan_id, p.user_id, 'o' || i, 'filled', :amount, :btc, :price,
       :created_at + i * :step, printf('%064x', i)
     from n join plans p on p.plan_id = 1 + (i - 1) % :plans`,
  ).run(filled)
}
