// Months: the reads of a month, and its closing.

import type { Activity } from '../../core/fees.ts'
import type { Btc, Usd } from '../../core/money.ts'
import { type FixedPeriod, isConfirmed, overPeriod, type Period, runningPeriod } from '../../core/month.ts'
import type { Tenant } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import { DAY_MS, earlier, type Instant, later, plus } from '../../core/time.ts'
import { type TenantRow, tenantOf } from '../rows/accounts.ts'
import {
  type AdjustmentRow,
  adjustmentOf,
  reportOf,
  TRADE_COLUMNS,
  type TradeRow,
  tradeOf,
} from '../rows/ledger.ts'
import { OF_TENANT } from '../sql/fragments.ts'
import { atOf, atOrNull, breathe, countOf, instant, instantOrNull, type Params, query } from '../statement.ts'
import type { AdjustmentLine, LinePlace, MonthStore, TradeLine, UserLine } from '../store.ts'
import { insertInto, type NewRow, selected } from '../tables.ts'
import { type Base, callOf, NOTHING, type Scope, type Step, type Steps, type Tx } from '../transaction.ts'
import { latestRecordedAt } from './confirmations.ts'
import { standingDispute } from './passes.ts'
import { isSandbox, timeAt } from './sandboxes.ts'

export const createMonthStore = (base: Base): MonthStore => ({
  ...createFixing(base),
  readActivity: activityReader(base),
  ...lineReaders(base),
})

/** The reads of an operator's report. */
const LARGE: Scope = { reads: 'large' }

// A tenant's month, user by user: the active users, and their volume.

const IN_PERIOD = 'd.recorded_at >= :start and d.recorded_at < :end'

type LineSums = { partner_user_id: string; trades: bigint; volume: bigint; btc: bigint; fees: bigint }

const total = (column: string, name: string): string =>
  `cast(coalesce(sum(d.${column}), 0) as bigint) as ${name}`
const SUMS = `${total('usd_amount', 'volume')}, ${total('btc_amount', 'btc')}, ${total('partner_fee_usd', 'fees')}`

/** The number and the sums of each plan's trades. A sum of integers is exact, and fails rather than overflows. */
const BY_PLAN = query<LineSums & { plan_id: bigint }>(
  `select u.partner_user_id, x.plan_id, x.trades, x.volume, x.btc, x.fees from (
     select d.user_id, d.plan_id, count(*) as trades, ${SUMS}
     from trades d where d.tenant_id = :tenant and ${IN_PERIOD} and d.status in ('filled', 'partial')
     group by d.plan_id, d.user_id) x
   join users u on u.user_id = x.user_id`,
)
const ADJUSTED = query<LineSums>(
  `select u.partner_user_id, cast(0 as bigint) as trades, x.volume, x.btc, x.fees from (
     select d.user_id, ${SUMS}
     from adjustments d where d.tenant_id = :tenant and ${IN_PERIOD} group by d.user_id) x
   join users u on u.user_id = x.user_id`,
)
/** Executions by their outcomes, those that ended without a confirmation as cancelled; and all that were created. */
const COUNTS = query<{ status: string; n: bigint }>(
  `select d.status, count(*) as n from trades d where d.tenant_id = :tenant and ${IN_PERIOD} group by d.status
   union all select 'cancelled', count(*) from executions
     where tenant_id = :tenant and cancelled_at is not null and cancelled_at >= :start and cancelled_at < :end
   union all select 'created', count(*) from executions
     where tenant_id = :tenant and created_at >= :start and created_at < :end`,
)

const activityReader =
  (base: Base): MonthStore['readActivity'] =>
  async (tenant, period) => {
    const lines = new Map<string, UserLine>()
    const plans = new Set<bigint>()
    const counts = new Map<string, number>()
    const call = callOf(tenant)
    for await (const slice of slicesOf(base, { ...period, tenant: tenant.tenantId }, call)) {
      const [byPlan, adjusted, counted] = await base.read(
        (tx) => tx.together(tx.all(BY_PLAN, slice), tx.all(ADJUSTED, slice), tx.all(COUNTS, slice)),
        call,
      )
      for (const row of byPlan) plans.add(row.plan_id)
      for (const row of [...byPlan, ...adjusted])
        lines.set(row.partner_user_id, added(lines.get(row.partner_user_id), row))
      for (const { status, n } of counted) counts.set(status, (counts.get(status) ?? 0) + Number(n))
    }
    const users = [...lines.values()].sort((a, b) => (a.partnerUserId < b.partnerUserId ? -1 : 1))
    const count = (status: string): number => counts.get(status) ?? 0
    const sum = (of: 'volume' | 'btc' | 'partnerFees'): bigint =>
      users.reduce((all, line) => all + line[of], 0n)
    const activity: Activity = {
      // A user whose only entry is an adjustment has a line, but is not active.
      activeUsers: users.filter(({ trades }) => trades > 0).length,
      activePlans: plans.size,
      executionsCreated: count('created'),
      executionsFilled: count('filled'),
      executionsPartial: count('partial'),
      executionsFailed: count('failed'),
      executionsCancelled: count('cancelled'),
      volume: sum('volume') as Usd,
      btc: sum('btc') as Btc,
      partnerFees: sum('partnerFees') as Usd,
    }
    return { activity, users }
  }

const added = (line: UserLine | undefined, row: LineSums): UserLine => ({
  partnerUserId: row.partner_user_id,
  trades: (line?.trades ?? 0) + Number(row.trades),
  volume: ((line?.volume ?? 0n) + row.volume) as Usd,
  btc: ((line?.btc ?? 0n) + row.btc) as Btc,
  partnerFees: ((line?.partnerFees ?? 0n) + row.fees) as Usd,
})

// The lines of a period: their places, and the names by which a database knows them.

type LineNames = TenantRow & { partner_user_id: string; partner_plan_id: string }

const lineOf = (
  row: LineNames & { execution_id: string; recorded_at: bigint },
): Omit<TradeLine, 'entry' | 'number'> => ({
  tenant: tenantOf(row),
  executionId: row.execution_id as TradeLine['executionId'],
  partnerUserId: row.partner_user_id,
  partnerPlanId: row.partner_plan_id,
  recordedAt: instant(row.recorded_at),
})

const tradeLineOf = (row: TradeRow & LineNames): TradeLine => ({
  ...lineOf(row),
  number: 0,
  entry: { kind: 'trade', report: reportOf(row), receivedAt: instantOrNull(row.received_at) },
})

const adjustmentLineOf = (row: AdjustmentRow & LineNames & { trade_order_id: string }): TradeLine => ({
  ...lineOf(row),
  number: Number(row.adjustment_id),
  entry: {
    kind: 'adjustment',
    partnerOrderId: row.partner_order_id ?? row.trade_order_id,
    adjustment: adjustmentOf(row),
  },
})

// The adjustments of a period, each with the trade that it corrects, page by page.

/** The columns of the trade, beside those of the adjustment. */
type ChangeRow = AdjustmentRow &
  LineNames & { [column in keyof TradeRow as `trade_${column}`]: TradeRow[column] }

const changeOf = (row: ChangeRow): AdjustmentLine => ({
  ...lineOf(row),
  partnerOrderId: row.partner_order_id ?? row.trade_partner_order_id,
  adjustment: adjustmentOf(row),
  original: tradeOf(
    Object.fromEntries(TRADE_COLUMNS.map((column) => [column, row[`trade_${column}`]])) as Readonly<
      Record<string, unknown>
    > as TradeRow,
  ),
})

/** The adjustments `a` of the tenants `t` that `scope` selects, with these columns of their trades `d`. */
const adjustmentsOf = (scope: string, ofTrade: string): string =>
  `select a.*, ${ofTrade}, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id
   from adjustments a join trades d on d.execution_id = a.execution_id
     join tenants t on t.tenant_id = a.tenant_id join users u on u.user_id = a.user_id
     join plans p on p.plan_id = a.plan_id
   where (a.recorded_at, a.execution_id, a.adjustment_id) > (:at, :id, :number) and a.recorded_at < :end
     and ${scope}
   order by a.recorded_at, a.execution_id, a.adjustment_id limit :limit`

const PAGE = query(adjustmentsOf(OF_TENANT, selected(TRADE_COLUMNS, 'd', 'trade_')), changeOf)

// The lines of a trades export: confirmations and adjustments, in one order, page by page.

const COUNT = query(
  `select cast(sum(x.n) as bigint) as n from (
     select count(*) as n from trades d join tenants t on t.tenant_id = d.tenant_id
     where ${IN_PERIOD} and ${OF_TENANT}
     union all select count(*) from adjustments d join tenants t on t.tenant_id = d.tenant_id
     where ${IN_PERIOD} and ${OF_TENANT}) x`,
  countOf,
)

/** The lines of the tenants `t` that `scope` selects. */
const linesOf = (scope: string) => ({
  trades: query(
    `select ${selected(TRADE_COLUMNS, 'd')},
       t.tenant_id, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id
     from trades d join tenants t on t.tenant_id = d.tenant_id join users u on u.user_id = d.user_id
       join plans p on p.plan_id = d.plan_id
     where (d.recorded_at, d.execution_id) > (:at, :id) and d.recorded_at < :end and ${scope}
     order by d.recorded_at, d.execution_id limit :limit`,
    tradeLineOf,
  ),
  adjustments: query(adjustmentsOf(scope, 'd.partner_order_id as trade_order_id'), adjustmentLineOf),
})
const OF_MANY = linesOf(OF_TENANT)
const OF_ONE = linesOf('t.tenant_id = :tenant')

function lineReaders(base: Base): Omit<MonthStore, 'fixPeriod' | 'fixTenantPeriod' | 'readActivity'> {
  type Reading = { lines: typeof OF_MANY; whose: Params; scope: Scope }
  async function read({ lines, whose, scope }: Reading, after: LinePlace, limit: number) {
    // A single lower bound lets a page begin at its own place in the index, not at the start of the month.
    const params = { ...whose, at: after.recordedAt, id: after.executionId, number: after.number, limit }
    // A trade comes before its adjustments, so that one under the last line's key has been read already.
    const [trades, adjustments] = await base.read(
      (tx) => tx.together(tx.all(lines.trades, params), tx.all(lines.adjustments, params)),
      scope,
    )
    return merged(trades, adjustments).slice(0, limit)
  }
  return {
    readTradeLines: ({ start, end }, filter, { after, limit }) =>
      read({ lines: OF_MANY, whose: { ...filter, end }, scope: LARGE }, after ?? beginningOf(start), limit),

    readTenantLines: (tenant, { start, end }, { after, limit }) =>
      read(
        { lines: OF_ONE, whose: { tenant: tenant.tenantId, end }, scope: callOf(tenant) },
        after ?? beginningOf(start),
        limit,
      ),

    readAdjustmentLines({ start, end }, filter, { after, limit }) {
      const place = {
        at: after?.recordedAt ?? start,
        id: after?.executionId ?? '',
        number: after?.adjustment.adjustmentId ?? 0,
      }
      return base.look((tx) => tx.all(PAGE, { ...filter, ...place, end, limit }), LARGE)
    },

    countTradeLines: async ({ start, end }, filter) =>
      (await base.look((tx) => tx.get(COUNT, { ...filter, start, end }), LARGE)) ?? 0,
  }
}

const beginningOf = (start: Instant): LinePlace => ({ recordedAt: start, executionId: '', number: 0 })

/** Both in the order of an export. Ids are ASCII, so comparing them here gives the order of a store. */
function merged(trades: TradeLine[], adjustments: TradeLine[]): TradeLine[] {
  if (adjustments.length === 0) return trades
  // The sort is stable: where keys are equal, the trade comes before its adjustments, in their order.
  return [...trades, ...adjustments].sort(
    (a, b) =>
      a.recordedAt - b.recordedAt ||
      (a.executionId < b.executionId ? -1 : a.executionId > b.executionId ? 1 : 0),
  )
}

// A month in slices: each is a short read, so that serve keeps answering and the write-ahead log can be checkpointed.

/** How many rows a slice holds at most, unless more of them have the same instant: a few milliseconds of reading. */
const TRADES_PER_SLICE = 2_000
const EXECUTIONS_PER_SLICE = 20_000

type Slice = { tenant: number; start: Instant; end: Instant }

const beyond = (table: string, at: string) =>
  query(
    `select ${at} as at from ${table} where tenant_id = :tenant and ${at} >= :start and ${at} < :end
     order by ${at} limit 1 offset :many`,
    atOf,
  )
const TRADE_BEYOND = beyond('trades', 'recorded_at')
const EXECUTION_BEYOND = beyond('executions', 'created_at')

/** Cuts a tenant's period into slices, one after the other and without a gap. */
async function* slicesOf(base: Base, { tenant, start, end }: Slice, call: Scope): AsyncGenerator<Slice> {
  for (let from = start; from < end; ) {
    const day = { tenant, start: from, end: earlier(plus(from, DAY_MS), end) }
    const full = await base.read(
      (tx) =>
        tx.together(
          tx.all(TRADE_BEYOND, { ...day, many: TRADES_PER_SLICE }),
          tx.all(EXECUTION_BEYOND, { ...day, many: EXECUTIONS_PER_SLICE }),
        ),
      call,
    )
    const until = full.flat().reduce((least, at) => earlier(least, at), day.end)
    const slice = { ...day, end: later(until, plus(from, 1)) }
    yield slice
    from = slice.end
    await breathe()
  }
}

// The closing of a month, and the bound below which nothing is dated any more, behind the gate of months on a server
// (../postgres/server/month-gate.ts), alone.

/** A later closed month counts too: its closing waited for the last write that could be dated before its end. */
export const IS_CLOSED = query('select 1 from closed_months where month >= :month limit 1', () => true)
/** When the first partner was added: nothing before that could be billed. */
const FIRST_PARTNER = query('select min(created_at) as at from partners', atOrNull)
const CLOSE_MONTH = query<never>(`${insertInto('closed_months')} on conflict do nothing`)

/** One row with the bound up to which months were reported: no later write is dated below it. */
const REPORT_UNTIL = query<never>(
  `${insertInto('reported_until', { one: '1' })}
   on conflict (one) do update set at = excluded.at where reported_until.at < excluded.at`,
)
/** The bound of a sandbox alone. */
const REPORT_SANDBOX_UNTIL = query<never>(
  'update sandboxes set reported_until = :at where tenant_id = :tenant and reported_until < :at',
)

/** The newest by number, not by time: a pass dated by a clock that was ahead counts until the next one. */
export const NEWEST_FINISHED_PASS = query(
  'select at from ticks where finished_at is not null order by tick_id desc limit 1',
  atOf,
)
const NEWEST_CHANGE = query('select at from audit order by audit_id desc limit 1', atOf)

/** How long a partner's call that closes a month may keep others from writing while a write is under way. */
const CALL_WAITS_MS = 250
/** How long no partner's call tries again after one has waited in vain. */
const TRY_AGAIN_MS = 15_000

/** The caller for whom a month is fixed; empty for an operator. */
type ForCall = Pick<Scope, 'caller' | 'key'>

function createFixing({ read, write }: Base): Pick<MonthStore, 'fixPeriod' | 'fixTenantPeriod'> {
  const closeInTurn = createTurn()
  let triesFrom = Number.NEGATIVE_INFINITY

  /** Fixes it once no other write of the tenant is under way; null if the real month is over by then. */
  const fixAlone = (period: Period, { tenantId }: Tenant, call: ForCall): Promise<FixedPeriod | null> =>
    write(
      function* (tx) {
        const times = yield* tx.times
        if (yield* isSandbox(tx, tenantId))
          return yield* fix(tx, period, { now: times.of(tenantId), sandbox: tenantId })
        return times.real < period.end ? yield* fix(tx, period, { now: times.real, sandbox: null }) : null
      },
      { tenants: [tenantId], alone: 'tenants', ...call },
    )

  /** Fixes it for everybody, once no other write at all is under way. */
  const fixForAll = (period: Period, scope: ForCall & Pick<Scope, 'waitsMs'>): Promise<FixedPeriod> =>
    write(
      function* (tx) {
        return yield* fix(tx, period, { now: (yield* tx.times).real, sandbox: null })
      },
      { alone: 'all', ...scope },
    )

  /** The answer that needs no lock: the month is closed, cannot be closed, or so far concerns its tenant alone. */
  const glance = (
    period: Period,
    tenant: Tenant | null,
    call: ForCall,
  ): Promise<'closed' | 'own' | 'unconfirmed' | 'common'> =>
    read(function* (tx) {
      const [isClosed, now] = yield* tx.together(tx.get(IS_CLOSED, { month: period.month }), tx.present)
      if (isClosed) return 'closed'
      if (tenant && (now < period.end || (yield* isSandbox(tx, tenant.tenantId)))) return 'own'
      return now < period.end || isConfirmed(period, yield* reached(tx, null)) ? 'common' : 'unconfirmed'
    }, call)

  /**
   * One call at a time, because the first one closes the month for all, and only briefly: on a server, a call that
   * waits for the gate of all keeps every other write waiting behind it, on every host, for as long as a hanging host
   * holds the gate.
   */
  const closeForCall = (period: Period, tenant: Tenant, call: ForCall): Promise<FixedPeriod> =>
    closeInTurn(async () => {
      const kind = await glance(period, tenant, call)
      if (kind === 'closed') return { ...period, final: true }
      if (kind !== 'common' || performance.now() < triesFrom) return { ...period, final: false }
      try {
        return await fixForAll(period, { ...call, waitsMs: CALL_WAITS_MS })
      } catch (error) {
        if (!(error instanceof Problem && error.code === 'database_locked')) throw error
        triesFrom = performance.now() + TRY_AGAIN_MS
        return { ...period, final: false }
      }
    })

  async function fixed(
    period: Period,
    tenant: Tenant | null,
    { call, forAll }: { call: ForCall; forAll: () => Promise<FixedPeriod> },
  ): Promise<FixedPeriod> {
    const kind = await glance(period, tenant, call)
    if (kind === 'closed') return { ...period, final: true }
    if (kind === 'unconfirmed') return { ...period, final: false }
    try {
      // A partner's request for its running month, possible at any time, holds up no other partner's writes.
      return (kind === 'own' && tenant && (await fixAlone(period, tenant, call))) || (await forAll())
    } catch (error) {
      // A database that has moved can be read, but closes no month.
      if (error instanceof Problem && error.code === 'database_moved') return { ...period, final: false }
      throw error
    }
  }

  return {
    fixPeriod: (period, tenant = null) =>
      fixed(period, tenant, { call: {}, forAll: () => fixForAll(period, {}) }),

    fixTenantPeriod: (tenant, period) => {
      const call = { caller: tenant.tenantId, key: tenant.keyId }
      return fixed(period, tenant, { call, forAll: () => closeForCall(period, tenant, call) })
    },
  }
}

/** Runs calls one after the other. */
function createTurn(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const mine = last.then(work)
    last = mine.catch(() => {})
    return mine
  }
}

/** The clock that applies: a sandbox closes its months only for itself, because it may be ahead of all others. */
type Clock = { now: Instant; sandbox: number | null }

function* fix(tx: Tx, period: Period, { now, sandbox }: Clock): Steps<FixedPeriod> {
  if (now < period.end) {
    const { fixed, reportedUntil } = runningPeriod(period, now, yield* latestRecordedAt(tx, sandbox))
    yield* report(tx, reportedUntil, sandbox)
    return fixed
  }
  const known = { now, reached: yield* reached(tx, sandbox) }
  const first = sandbox === null ? ((yield* tx.get(FIRST_PARTNER)) ?? null) : null
  const { fixed, reportedUntil, closes } = overPeriod(period, known, first)
  if (closes && sandbox === null) {
    const { month, end } = closes
    yield* tx.run(CLOSE_MONTH, { month, period_end: end, closed_at: now } satisfies NewRow<'closed_months'>)
  }
  yield* report(tx, reportedUntil, sandbox)
  return fixed
}

function report(tx: Tx, at: Instant | null, sandbox: number | null): Step<unknown> {
  if (at === null) return NOTHING
  if (sandbox !== null) return tx.run(REPORT_SANDBOX_UNTIL, { at, tenant: sandbox })
  return tx.run(REPORT_UNTIL, { at })
}

// Confirms that a month is over: how far time has come by the records. A billing report alone closes no month.

const NEVER = 0 as Instant

/** The newest pass, change, trade or adjustment, in a sandbox's time or the real one; never while that is in doubt. */
function* reached(tx: Tx, sandbox: number | null): Steps<Instant> {
  const [dispute, pass = NEVER, change = NEVER] = yield* tx.together(
    standingDispute(tx),
    tx.get(NEWEST_FINISHED_PASS),
    tx.get(NEWEST_CHANGE),
  )
  if (dispute) return NEVER
  const noted = later(pass, change)
  if (sandbox !== null) return yield* timeAt(tx, sandbox, noted)
  return later(noted, (yield* latestRecordedAt(tx, null)) ?? NEVER)
}
