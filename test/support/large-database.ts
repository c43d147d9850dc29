// Large files filled by SQL, in seconds. Their contents are checked by their own keys and constraints.

import { hash } from 'node:crypto'
import { price, usd } from '../../src/core/money.ts'
import { DAY_MS, HOUR_MS, type Instant, plus } from '../../src/core/time.ts'
import { type Database, openFile } from '../../src/store/sqlite/file/connection.ts'
import { T0 } from './service.ts'

// The contents of large databases, as SQL for either store: users, plans that wait for a price or an hour that does not
// come, executions, trades. Every statement inserts into empty tables.

export type Filling = { text: string; params: Record<string, unknown> }
/** How a store writes a number with so many hexadecimal digits. */
export type Hex = (value: string, digits: number) => string

/** The lease of an execution that was sent: longer than any measurement. */
const LEASE_MS = 4 * 60_000

export type Layout = {
  tenantId: number
  /** They share the plans in turns. */
  users: number
  plans: number
  now: Instant
  /**
   * The limit price of each plan, at most 50,000 USD: one for all, a thousand values in turns, or as many as there are
   * plans, without any order, down to 45,000 USD.
   */
  limits: 'alike' | 'in turns' | 'scattered'
  /** Whether each plan has an open execution, and in which state. */
  executions?: 'pending' | 'sent'
}

/** A server would infer a small integer type for a parameter next to a small number. */
const LIMIT = 'cast(:limit as bigint)'
const LIMITS: Record<Layout['limits'], string> = {
  alike: LIMIT,
  'in turns': `${LIMIT} - i % 1000`,
  scattered: `${LIMIT} - i * 2654435761 % 500000000000`,
}

const NUMBERS = 'with recursive n (i) as (values (1) union all select i + 1 from n where i < :count)'
/** As the product makes them: the time first, then the distinguishing part. */
const executionId = (hex: Hex): string =>
  `'exec_' || ${hex('cast(:created_at as bigint)', 12)} || ${hex('i', 20)}`

/** Linked users u1, u2, ... */
export const usersOf = ({ tenantId, users }: Pick<Layout, 'tenantId' | 'users'>): Filling[] => [
  {
    text: `${NUMBERS} insert into users (user_id, tenant_id, partner_user_id, consent_version, consent_timestamp,
       status, created_at, updated_at)
     select i, :tenant, 'u' || i, 'v', 0, 'linked', 0, 0 from n`,
    params: { count: users, tenant: tenantId },
  },
]

/**
 * Weekly plans p1, p2, ... of 200 USD with their users. Each has fired the first unit of its first slot, and waits for
 * its price, or for nine hours without one.
 */
export function plansOf(layout: Layout, hex: Hex): Filling[] {
  const { plans, now, tenantId, users, limits, executions } = layout
  const params = {
    count: plans,
    users,
    tenant: tenantId,
    now,
    clock: plus(now, 9 * HOUR_MS),
    next: plus(now, 12 * HOUR_MS),
    end: plus(now, 7 * DAY_MS),
    amount: usd('200.00'),
    reserved: executions ? usd('10.00') : 0n,
    fireable: usd('200.00') - (executions ? usd('10.00') : 0n),
    floor: usd('5.00'),
    limit: price('50000'),
  }
  const limit = LIMITS[limits]
  const tables = [
    `plans (plan_id, tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled, start_date,
       status, created_at, updated_at)
     select i, :tenant, 1 + (i - 1) % :users, 'p' || i, :amount, 'weekly', 1, :now, 'active', :now, :now from n`,
    `windows (window_id, plan_id, window_start, window_end, budget, reserved)
     select i, i, :now, :end, :amount, :reserved from n`,
    `schedules (plan_id, window_id, awake, next_run_at, limit_price, clock_at, window_start, window_end, budget,
       fireable, floor, tranche_index, slots, units_per_slot, units_fired, slot, reference_price, half_width,
       extras_left, next_extra_at)
     select i, i, 1, :next, ${limit}, cast(:clock as bigint) + i % 1000, :now, :end, :amount, :fireable, :floor, 1, 14,
       2, 1, 0, ${limit}, 0, 3, :now
     from n`,
  ]
  return [
    ...usersOf(layout),
    ...tables.map((into) => ({ text: `${NUMBERS} insert into ${into}`, params })),
    ...(executions ? [executionsOf(layout, executions, hex)] : []),
  ]
}

function executionsOf({ plans, now, tenantId }: Layout, status: 'pending' | 'sent', hex: Hex): Filling {
  const isSent = status === 'sent'
  return {
    text: `${NUMBERS} insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index,
       amount_usd, trigger_kind, slot, units, created_at, status, delivered_count, lease_expires_at)
     select ${executionId(hex)}, :tenant, i, i, :created_at, 0, :amount, 'slot_start', 0, 1, :created_at, :status,
       :delivered, :lease from n`,
    params: {
      count: plans,
      tenant: tenantId,
      created_at: now,
      amount: usd('10.00'),
      status,
      delivered: Number(isSent),
      lease: isSent ? plus(now, LEASE_MS) : null,
    },
  }
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
 * Plans with closed windows, and filled executions of 10 USD with their trades. The digests are invalid: `check` would
 * name every trade.
 */
export function tradesOf({ tenantId, users, plans, trades, start, end }: Trades, hex: Hex): Filling[] {
  const each = BigInt(Math.ceil(trades / plans))
  const closed = {
    count: plans,
    users,
    tenant: tenantId,
    start,
    end,
    budget: each * usd('10.00'),
    amount: usd('1000.00'),
  }
  const filled = {
    count: trades,
    plans,
    tenant: tenantId,
    created_at: start,
    step: Math.floor((end - start) / trades),
    amount: usd('10.00'),
    btc: 20_000n,
    price: price('50000'),
  }
  const plan = 'cast(:plans as bigint)'
  return [
    ...usersOf({ tenantId, users }),
    {
      text: `${NUMBERS} insert into plans (plan_id, tenant_id, user_id, partner_plan_id, amount_usd, frequency,
       smart_timing_enabled, start_date, status, created_at, updated_at)
     select i, :tenant, 1 + (i - 1) % :users, 'p' || i, :amount, 'weekly', 1, :start, 'cancelled', :start, :start
     from n`,
      params: closed,
    },
    {
      text: `${NUMBERS} insert into windows (window_id, plan_id, window_start, window_end, budget, spent, closed_at,
       close_reason)
     select i, i, :start, :end, :budget, :budget, :end, 'ended' from n`,
      params: closed,
    },
    {
      text: `${NUMBERS} insert into executions (execution_id, tenant_id, plan_id, window_id, window_start,
       tranche_index, amount_usd, trigger_kind, slot, units, created_at, status, delivered_count, lease_expires_at)
     select ${executionId(hex)}, :tenant, 1 + (i - 1) % ${plan}, 1 + (i - 1) % ${plan}, :created_at,
       (i - 1) / ${plan}, :amount, 'slot_start', 0, 1, :created_at, 'filled', 1, :created_at from n`,
      params: filled,
    },
    {
      text: `${NUMBERS} insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status,
       usd_amount, btc_amount, execution_price, recorded_at, digest)
     select ${executionId(hex)}, :tenant, p.plan_id, p.user_id, 'o' || i, 'filled', :amount, :btc, :price,
       cast(:created_at as bigint) + i * cast(:step as bigint), ${hex('i', 64)}
     from n join plans p on p.plan_id = 1 + (i - 1) % ${plan}`,
      params: filled,
    },
  ]
}

export type Year = {
  tenantId: number
  /** Each plan has a user of its own. */
  plans: number
  days: number
  /** The end of the last day, whose windows are the current ones. */
  end: Instant
}

/** How often a daily plan of a year fires in a window. */
const TRANCHES = 4
export const tradesIn = ({ plans, days }: Pick<Year, 'plans' | 'days'>): number => plans * days * TRANCHES

/**
 * A year in a file, as passes, partners and feeds leave it: daily plans of 60 USD, each day's window with four fills
 * of 15 USD, a price and a pass every five minutes. The books add up, and `check` finds nothing.
 */
function yearOf({ tenantId, plans, days, end }: Year): Filling[] {
  const trades = tradesIn({ plans, days })
  const start = plus(end, -days * DAY_MS)
  const each = DAY_MS / TRANCHES
  const params = {
    plans,
    tenant: tenantId,
    start,
    end,
    day: DAY_MS,
    amount: usd('60.00'),
    usd: usd('15.00'),
    btc: 30_000n,
    price: price('50000'),
    floor: usd('5.00'),
  }
  const of = (count: number, text: string): Filling => {
    const used = Object.entries(params).filter(([name]) => new RegExp(`:${name}\\b`).test(text))
    return { text: `${NUMBERS} insert into ${text}`, params: { ...Object.fromEntries(used), count } }
  }
  const plan = '(i - 1) % cast(:plans as bigint)'
  // Executions come in the order of their time: by day, quarter of the day, and plan.
  const quarter = '(i - 1) / cast(:plans as bigint)'
  const day = `${quarter} / ${TRANCHES}`
  const createdAt = `(cast(:start as bigint) + ${quarter} * ${each} + ${plan} * 1000)`
  const id = `'exec_' || ${hexInSqlite(createdAt, 12)} || ${hexInSqlite('i', 20)}`
  const windowStart = `(cast(:start as bigint) + ${day} * cast(:day as bigint))`
  const windowId = `(${day} * cast(:plans as bigint) + 1 + ${plan})`
  const openedAt = `(cast(:start as bigint) + ${quarter} * cast(:day as bigint))`
  const isLast = `${quarter} = ${days - 1}`
  const recordedAt = `(${createdAt} + 60000)`
  const { usd: dollars, btc, price: at } = params
  const report = `'["filled","o' || i || '",null,"${dollars}","${btc}","${at}",null]'`
  const digest = `sha256('["' || ${id} || '",' || ${recordedAt} || ',"' || replace(${report}, '"', '\\"') || '"]')`
  return [
    ...usersOf({ tenantId, users: plans }),
    of(
      plans,
      `plans (plan_id, tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled, start_date,
         status, created_at, updated_at)
       select i, :tenant, i, 'p' || i, :amount, 'daily', 1, :start, 'active', :start, :start from n`,
    ),
    of(
      plans * days,
      `windows (window_id, plan_id, window_start, window_end, budget, spent, closed_at, close_reason)
       select i, 1 + ${plan}, ${openedAt}, ${openedAt} + cast(:day as bigint), :amount, :amount,
         case when ${isLast} then null else ${openedAt} + cast(:day as bigint) end,
         case when ${isLast} then null else 'ended' end
       from n`,
    ),
    of(
      plans,
      `schedules (plan_id, window_id, awake, next_run_at, window_start, window_end, budget, fireable, floor,
         tranche_index, slot, extras_left, next_extra_at)
       select i, cast(:plans as bigint) * ${days - 1} + i, 1, :end, cast(:end as bigint) - cast(:day as bigint), :end,
         :amount, 0, :floor, ${TRANCHES}, 0, 0, :end from n`,
    ),
    of(
      trades,
      `executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index, amount_usd,
         trigger_kind, slot, units, price, created_at, status, delivered_count, lease_expires_at)
       select ${id}, :tenant, 1 + ${plan}, ${windowId}, ${windowStart}, ${quarter} % ${TRANCHES}, :usd, 'limit', 0, 1,
         :price, ${createdAt}, 'filled', 1, ${createdAt} from n`,
    ),
    of(
      trades,
      `trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount, btc_amount,
         execution_price, recorded_at, digest)
       select ${id}, :tenant, 1 + ${plan}, 1 + ${plan}, 'o' || i, 'filled', :usd, :btc, :price, ${recordedAt},
         ${digest} from n`,
    ),
    of(
      days * 288,
      `prices (at, price, source) select cast(:start as bigint) + i * cast(300000 as bigint), :price, 'feed' from n`,
    ),
    of(
      days * 288,
      `ticks (tick_id, at, price, plans_evaluated, finished_at)
       select i, cast(:start as bigint) + i * cast(300000 as bigint), :price, 0,
         cast(:start as bigint) + i * cast(300000 as bigint) + 100 from n`,
    ),
  ]
}

export const hexInSqlite: Hex = (value, digits) => `printf('%0${digits}x', ${value})`

/** Fills a migrated database in one transaction that is not synced. Throws when a key or a constraint is broken. */
export function fill(file: string, work: (db: Database) => void): void {
  const db = openFile(file)
  try {
    db.pragma('synchronous = off')
    db.pragma('foreign_keys = on')
    db.transaction(() => {
      work(db)
    })()
  } finally {
    db.close()
  }
}

export const addTrades = (db: Database, trades: Trades): void => addAll(db, tradesOf(trades, hexInSqlite))

export function addYear(db: Database, year: Year): void {
  db.function('sha256', { deterministic: true }, (text: unknown) => hash('sha256', String(text)))
  addAll(db, yearOf(year))
}

export function addAll(db: Database, fillings: readonly Filling[]): void {
  for (const { text, params } of fillings) db.prepare(text).run(params)
}

// A user with a crowd of plans, each with an open execution, inserted by SQL: as a partner could build up in weeks.

type Crowd = { user: string; plans: number; status: 'pending' | 'sent' }

/** Adds the user and the plans to a tenant. A sent execution is under a lease until five minutes after T0. */
export function addCrowd(file: string, tenantId: number, { user, plans, status }: Crowd): void {
  const values = {
    tenant: tenantId,
    user,
    plans,
    status,
    now: T0,
    end: T0 + 7 * 86_400_000,
    lease: status === 'sent' ? T0 + 300_000 : null,
    amount: usd('200.00'),
    tranche: usd('10.00'),
    left: usd('190.00'),
    floor: usd('5.00'),
    price: price('50000'),
  }
  const numbers = `with recursive n (i) as (values (1) union all select i + 1 from n where i < :plans),
    base (plan, window) as (select coalesce((select max(plan_id) from plans), 0), coalesce((select max(window_id) from windows), 0))`
  const steps = [
    `insert into users (tenant_id, partner_user_id, consent_version, consent_timestamp, status, created_at, updated_at)
     values (:tenant, :user, 'v', 0, 'linked', :now, :now)`,
    `${numbers} insert into windows (window_id, plan_id, window_start, window_end, budget, reserved)
     select window + i, plan + i, :now, :end, :amount, :tranche from n, base`,
    `${numbers} insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index,
       amount_usd, trigger_kind, slot, units, created_at, status, delivered_count, lease_expires_at)
     select printf('exec_%016x%016x', :tenant, plan + i), :tenant, plan + i,
       (select max(window_id) - :plans from windows) + i, :now, 0,
       :tranche, 'slot_start', 0, 1, :now + i, :status, iif(:lease is null, 0, 1), :lease from n, base`,
    `${numbers} insert into schedules select plan + i, (select max(window_id) - :plans from windows) + i, 1, :end,
       :price - i % 1000, :end, :now, :end, :amount, :left, :floor, 1, 14, 2, 1, 0, :price, 0, 3, :now, 0 from n, base`,
    `${numbers} insert into plans (plan_id, tenant_id, user_id, partner_plan_id, amount_usd, frequency,
       smart_timing_enabled, start_date, status, created_at, updated_at)
     select plan + i, :tenant, (select user_id from users where tenant_id = :tenant and partner_user_id = :user), :user || ' ' || i, :amount,
       'weekly', 1, :now, 'active', :now, :now from n, base`,
  ]
  fill(file, (db) => {
    // Plans come last, since they determine the number of the others; the keys are checked at the commit.
    db.pragma('defer_foreign_keys = on')
    for (const step of steps) db.prepare(step).run(values)
  })
}
