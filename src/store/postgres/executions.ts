// Executions as partners poll them on a server: a twin of ../sqlite/executions.ts, because every purchase goes this
// way. Confirmations of a tenant share a transaction.

import {
  type Confirmation,
  type ExecutionFacts,
  type LateFill,
  RECORDED_SINCE,
  type Recorded,
  type Refused,
  type Trade,
} from '../../core/confirmation.ts'
import { type Execution, type ExecutionId, LEASE_AHEAD_MAX_MS } from '../../core/execution.ts'
import type { Caller, Tenant } from '../../core/partner.ts'
import { type Instant, later, MINUTE_MS, plus } from '../../core/time.ts'
import { unreserved, type Window } from '../../core/window.ts'
import {
  amountParams,
  type ExecutionRow,
  executionOf,
  type LateFillRow,
  lateFillOf,
  lateFillParams,
  type TradeRow,
  tradeOf,
  tradeParams,
  type WindowRow,
  windowOf,
} from '../rows/ledger.ts'
import { sealedProblem } from '../seal.ts'
import { createListings, decideLate, type Levers, latestRecordedAt } from '../shared/executions.ts'
import { finishStops, isAnyStopping } from '../shared/users.ts'
import { IS_OPEN, OF_TENANT, SELECT_EXECUTION, unleasedAt } from '../sql/fragments.ts'
import { instant, query } from '../statement.ts'
import type { ExecutionStore } from '../store.ts'
import { columnsToAdd } from '../tables.ts'
import { type Base, callOf } from '../transaction.ts'
import { COMMIT_SHARE_MAX, createPollNotes, gather, type PollNotes } from '../writes.ts'
import { within } from './driver.ts'
import { lockExecutions } from './plans.ts'
import type { Connection, WriteTx } from './server/connection.ts'
import { isRowsFault, isTaken, onceMore } from './server/errors.ts'
import { LOCK } from './server/locks.ts'
import { type Entered, refuseStill, STILL_SQL, type StillState } from './server/month-gate.ts'
import { arraysFor, arraysOf, namesOf, rowsIn, TENANT_NOW_SQL, type Tx } from './server/pipeline.ts'

// Without the order and the offset, the planner may look for the least id in the whole table, and would read all of it
// for each tenant that has none.
const EARLIEST = query<{ first: string | null }>(
  `select min((select min(e.execution_id) from (
     select o.execution_id from executions o where o.tenant_id = t.tenant_id and o.created_at >= :since
     order by o.created_at, o.execution_id offset 0) e)) as first
   from tenants t where ${OF_TENANT}`,
)

/** No write takes longer than this: nothing more is added among what was created before. */
const WRITE_MAX_MS = 5 * MINUTE_MS

export function createExecutionStore(
  connection: Connection,
  driver: Base,
  notes: PollNotes,
): Omit<ExecutionStore, keyof Levers> {
  const poll = createPoll(connection, { driver, notes })
  const confirm = createConfirm(connection)

  return {
    deliverDue: (tenant, limit, deliver) => poll(tenant, { limit, deliver }),

    confirmExecution: (tenant, ids, decide) => confirm(tenant, ids, decide),

    ...createListings(driver, { earliest: EARLIEST, isSettled }),
  }
}

type Read = Awaited<ReturnType<ExecutionStore['readExecutions']>>

/**
 * Whether a page is full, and older than every write that is under way: writes do not end in the order in which they
 * read the clock.
 */
function isSettled({ executions, now }: Read, limit: number): boolean {
  const last = executions[limit - 1]
  return last !== undefined && last.createdAt < plus(now, -WRITE_MAX_MS)
}

// What a poll hands out. Open executions are in one index by the end of their lease, those never delivered under 0, so
// a poll never reads executions under a lease.

/**
 * How many of those that a poll leaves are counted: the next poll gets far fewer, and counting a million takes time.
 */
const REMAINING_MAX = 10_000

const OPEN = `e.tenant_id = :tenant and ${IS_OPEN}`
/** Phrased exactly like this, because an index has the same condition. */
const LEASE = 'coalesce(e.lease_expires_at, 0)'
/** A lease that ends after this counts as over as well. */
const ahead = (now: string): string => `${now} + ${LEASE_AHEAD_MAX_MS}`

const firstLease = (where: string): string =>
  `(select ${LEASE} from executions e where ${OPEN} and ${where} order by ${LEASE} limit 1)`

/** The leases that are over, one step along the index for each. */
const LEASES = `leases (lease) as (
  select coalesce(${firstLease(`${LEASE} <= :now::bigint`)}, ${firstLease(`${LEASE} > ${ahead(':now::bigint')}`)})
  union all
  select coalesce(${firstLease(`${LEASE} > leases.lease and ${LEASE} <= :now`)},
    ${firstLease(`${LEASE} > greatest(leases.lease, ${ahead(':now')})`)})
  from leases where leases.lease is not null)`

/** Leases follow the order of creation, as polls did, and what was never delivered is the youngest. */
const RANKED = `ranked as (
  select lease, row_number() over (order by lease = 0, lease) as place from leases where lease is not null)`
/** The oldest are taken from this many leases; from the others, only what is older still, which is little. */
const NEAR = 4

const under = (lease: string, bound = ''): string => `
  select e.created_at, e.execution_id from executions e
  where ${OPEN} and ${LEASE} = ${lease} ${bound}
  order by e.created_at, e.execution_id limit :limit`
/** Older than the last of those found, or anything when they are too few. */
const OLDER = `and (e.created_at, e.execution_id) <
  (coalesce(last.created_at, ${2n ** 62n}), coalesce(last.execution_id, ''))`

const FIRST = query<ExecutionRow>(`
  with recursive ${LEASES}, ${RANKED},
  near as materialized (
    select o.* from ranked r cross join lateral (${under('r.lease')}) o where r.place <= ${NEAR}
    order by o.created_at, o.execution_id limit :limit),
  last as materialized (
    select * from near order by created_at, execution_id offset greatest(:limit - 1, 0) limit 1),
  far as (
    select o.* from ranked r left join last on true cross join lateral (${under('r.lease', OLDER)}) o
    where r.place > ${NEAR}),
  found as (
    select execution_id from (select * from near union all select * from far) o
    order by created_at, execution_id limit :limit)
  ${SELECT_EXECUTION}
  where e.execution_id = any(array(select execution_id from found)) and +e.tenant_id = :tenant and ${IS_OPEN} and ${unleasedAt(':now')}
  order by e.execution_id
  for no key update of e`)

// Both orders are only for the planner: without them, it may scan the table, most of which is history.
const overdue = (where: string): string =>
  `(select from executions e where ${OPEN} and ${LEASE} ${where} order by ${LEASE} limit ${REMAINING_MAX})`
const COUNT = query<{ n: bigint }>(`
  select least(count(*), ${REMAINING_MAX}) as n
  from (${overdue('<= :now::bigint')} union all ${overdue(`> ${ahead(':now::bigint')}`)}) due`)

/** The rows are locked in the order of their ids, as everywhere. */
const byCreation = (a: ExecutionRow, b: ExecutionRow): number =>
  Number(a.created_at - b.created_at) || (a.execution_id < b.execution_id ? -1 : 1)

/** The last two are null in a database that takes writes. */
type Look = StillState & {
  clock: bigint
  due: boolean
  sealed_at: bigint | null
  moved_to: string | null
}
// Read from the two ends of the index instead of with `exists`: a planner that expects many matches would search the
// table itself for one.
const endOf = (order: 'asc' | 'desc'): string =>
  `(select ${LEASE} from executions e where ${OPEN} order by ${LEASE} ${order} limit 1)`
const LOOK = query<Look>(`
  with t as materialized (${TENANT_NOW_SQL})
  select t.clock, coalesce(${endOf('asc')} <= t.now or ${endOf('desc')} > ${ahead('t.now')}, false) as due, s.at as sealed_at, s.moved_to,
    ${STILL_SQL}
  from t left join sealed s on true`)

const dueList = {
  /** Whether anything is due, and what the clock says; `clock` is the time of a test's clock. */
  look: (tx: Tx, { tenantId }: Tenant, clock: Instant | null): Promise<Look | undefined> =>
    tx.get(LOOK, { tenant: tenantId, clock }),

  /**
   * The oldest of what is due, in the order of creation, locked. It waits for rows that somebody else holds: only then
   * is it known whether they are still due (docs/decisions/commits.md#polls-wait-for-locked-rows).
   */
  first: async (tx: Tx, { tenantId }: Tenant, now: Instant, limit: number) =>
    (await tx.all(FIRST, { tenant: tenantId, now, limit })).sort(byCreation),

  /** How many are due, up to REMAINING_MAX. */
  count: async (tx: Tx, { tenantId }: Tenant, now: Instant): Promise<number> =>
    Number((await tx.get(COUNT, { tenant: tenantId, now }))?.n),
}

// A poll: first looks without locks, because most find nothing; then takes its tenant's turn, and leases what is due.

type DuePage = { executions: Execution[]; remaining: number }
type Handing = { limit: number; deliver: (execution: Execution, now: Instant) => Execution }

const TURN = query(`select pg_advisory_xact_lock(${LOCK.poll}, :tenant::int)`)

const LEASED = arraysFor('executions', ['execution_id', 'status', 'delivered_count', 'lease_expires_at'])
const LEASE_DUE = query(
  `update executions
   set status = r.status, delivered_count = r.delivered_count, lease_expires_at = r.lease_expires_at
   from ${rowsIn(LEASED, 'r')}
   where executions.execution_id = r.execution_id and +executions.tenant_id = :tenant`,
)
const leasedRow = (one: Execution) => ({
  execution_id: one.executionId,
  status: one.status,
  delivered_count: one.deliveredCount,
  lease_expires_at: one.leaseExpiresAt,
})

function createPoll(connection: Connection, { driver, notes }: { driver: Base; notes: PollNotes }) {
  const { clock, look, write } = connection

  /** Leases the first `limit` due executions, and counts the rest. Null while a user is being disabled. */
  async function hand(tx: WriteTx, tenant: Tenant, { limit, deliver }: Handing): Promise<DuePage | null> {
    const { tenantId } = tenant
    const [times] = await Promise.all([tx.times, tx.run(TURN, { tenant: tenantId })])
    const now = times.of(tenantId)
    // Checked once the rows are locked: a disable that comes later finds them delivered, and cancels them.
    const [due, isStopping] = await Promise.all([
      dueList.first(tx, tenant, now, limit),
      within(tx, (steps) => isAnyStopping(steps, tenant)),
    ])
    if (isStopping) return null
    const executions = due.map((row) => deliver(executionOf(row), now))
    const leased = { tenant: tenantId, ...arraysOf(LEASED, executions.map(leasedRow)) }
    if (executions.length > 0) tx.unwaited(tx.run(LEASE_DUE, leased))
    return { executions, remaining: await dueList.count(tx, tenant, now) }
  }

  return async (tenant: Caller, handing: Handing): Promise<DuePage> => {
    for (;;) {
      const [state, isStopping] = await look(
        (tx) =>
          Promise.all([
            dueList.look(tx, tenant, clock.parameter()),
            within(tx, (steps) => isAnyStopping(steps, tenant)),
          ]),
        callOf(tenant),
      )
      if (state) notes.note(tenant, instant(state.clock))
      // A poll that finds nothing writes nothing, and so would not meet the seal.
      if (state?.moved_to != null && state.sealed_at !== null)
        throw sealedProblem({ at: instant(state.sealed_at), movedTo: state.moved_to })
      if (state) refuseStill(state)
      // Not one execution of a user who is being disabled is handed out: they are all cancelled first.
      if (isStopping) await finishStops(driver, tenant)
      else if (!state?.due) return { executions: [], remaining: 0 }
      const page = await write((tx) => hand(tx, tenant, handing), callOf(tenant))
      if (page) return page
    }
  }
}

// Writes when tenants last polled (../writes.ts).

const POLLED = arraysFor('polls', columnsToAdd('polls'))
const PUT = query(
  `insert into polls (${namesOf(POLLED)}) select * from ${rowsIn(POLLED, 'r')} order by tenant_id
   on conflict (tenant_id) do update set polled_at = excluded.polled_at`,
)

export function pollNotesOf({ write }: Connection): PollNotes {
  return createPollNotes((polls) => {
    const rows = polls.map(([tenant_id, polled_at]) => ({ tenant_id, polled_at }))
    return write((tx) => tx.run(PUT, arraysOf(POLLED, rows)))
  })
}

// Confirmations: those of one tenant wait in one lane of this process, and share a transaction.

// Late fills.

const KEPT = arraysFor('late_reports', columnsToAdd('late_reports'))
const KEEP = query(
  `insert into late_reports (${namesOf(KEPT)})
   select ${namesOf(KEPT)} from ${rowsIn(KEPT, 'r')} on conflict (execution_id, fingerprint) do nothing`,
)
const COUNTED = arraysFor('executions', ['execution_id'])
const KEEP_COUNT = query(
  `update executions set unkept_reports = unkept_reports + r.n
   from (select execution_id, count(*) as n from ${rowsIn(COUNTED, 'c')} group by execution_id) r
   where executions.execution_id = r.execution_id`,
)

/** Keeps refused fills as late fills, or counts them, and skips those that are already kept. */
async function keep(tx: Tx, tenantId: number, refused: readonly Refused[], now: Instant): Promise<void> {
  const kept = refused
    .filter(({ keeping }) => keeping === 'new')
    .map((one) => lateFillParams(one, tenantId, now))
  const counted = refused
    .filter(({ keeping }) => keeping === 'counted')
    .map(({ execution }) => ({ execution_id: execution.executionId }))
  await Promise.all([
    kept.length > 0 && tx.run(KEEP, arraysOf(KEPT, kept)),
    counted.length > 0 && tx.run(KEEP_COUNT, arraysOf(COUNTED, counted)),
  ])
}

type Decide = (facts: ExecutionFacts, now: Instant) => Confirmation
type Job = { ids: Asked; decide: Decide; keyId: string | undefined }
type Confirmed = Outcome<Confirmation>

function createConfirm(connection: Connection) {
  const lanes = new Map<number, (job: Job) => Promise<Confirmation>>()

  const together = ({ tenantId }: Tenant, jobs: readonly Job[]): Promise<Confirmed[]> => {
    const keys = [...new Set(jobs.flatMap(({ keyId }) => keyId ?? []))]
    return connection.write(
      async (tx) => {
        const asked = jobs.map(({ ids }) => ids)
        const [times, , batch] = await Promise.all([
          tx.times,
          lockExecutions(
            tx,
            tenantId,
            asked.map(({ executionId }) => executionId),
          ),
          readBatch(tx, tenantId, asked),
        ])
        const now = times.of(tenantId)
        const outcomes = jobs.map((job) => attempt(job, batch, { times, now }))
        tx.unwaited(writeBatch(tx, tenantId, batch, now))
        return outcomes
      },
      // A purchase is recorded even while the database stands still.
      { ...callOf({ tenantId }), keys, stopsWhenStill: false },
    )
  }

  /** On its own: decided again, once, if another connection has recorded its order meanwhile. */
  const alone = (tenant: Tenant, job: Job): Promise<Confirmed> =>
    onceMore(() => together(tenant, [job])).then(
      ([outcome]) => outcome as Confirmed,
      (error) => ({ ok: false, error }),
    )

  async function confirmAll(tenant: Tenant, jobs: readonly Job[]): Promise<Confirmed[]> {
    try {
      return await together(tenant, jobs)
    } catch (error) {
      if (!isRowsFault(error) || (jobs.length === 1 && !isTaken(error))) throw error
    }
    // It is unknown which job's row was at fault, and the others must not fail with it.
    const outcomes: Confirmed[] = []
    for (const job of jobs) outcomes.push(await alone(tenant, job))
    return outcomes
  }

  return (tenant: Caller, ids: Asked, decide: Decide): Promise<Confirmation> => {
    const { tenantId, keyId } = tenant
    const lane = lanes.get(tenantId) ?? createLane((jobs: readonly Job[]) => confirmAll(tenant, jobs))
    lanes.set(tenantId, lane)
    return lane({ ids, decide, keyId })
  }
}

/** A refusal leaves the batch with its own Problem, and changes nothing for the others. */
function attempt(
  { ids, decide, keyId }: Job,
  batch: ConfirmationBatch,
  { times, now }: { times: Entered; now: Instant },
): Confirmed {
  try {
    if (keyId !== undefined) times.admit(keyId)
    const value = decide(batch.facts(ids), now)
    batch.take(value, now)
    return { ok: true, value }
  } catch (error) {
    return { ok: false, error }
  }
}

// Confirmations that are decided one after the other and written together: each sees what those before it have changed.

type Asked = { executionId: string; partnerOrderId: string }

/** An order that is on record, and the execution that holds it. */
type Holder = { partnerOrderId: string; executionId: ExecutionId }

/** The records of the executions and orders in question. */
type OnRecord = {
  executions: readonly Execution[]
  windows: readonly Window[]
  trades: readonly Trade[]
  /** Oldest first. */
  lateFills: readonly { executionId: string; late: LateFill }[]
  holders: readonly Holder[]
  latestRecordedAt: Instant | null
}

type ConfirmationBatch = {
  facts(asked: Asked): ExecutionFacts
  take(confirmation: Confirmation, now: Instant): void
  /** All that was taken; the windows as they are after all of it. */
  changes(): { recorded: readonly Recorded[]; refused: readonly Refused[]; windows: readonly Window[] }
}

function createBatch(found: OnRecord): ConfirmationBatch {
  const executions = new Map<string, Execution>(found.executions.map((one) => [one.executionId, one]))
  const windows = new Map(found.windows.map((window) => [window.windowId, window]))
  const trades = new Map<string, Trade>(found.trades.map((trade) => [trade.executionId, trade]))
  const lateFills = Map.groupBy(found.lateFills, ({ executionId }) => executionId)
  const holders = Map.groupBy(found.holders, ({ partnerOrderId }) => partnerOrderId)
  let latest = found.latestRecordedAt
  const recorded: Recorded[] = []
  const refused: Refused[] = []

  const add = <V>(map: Map<string, V[]>, key: string, value: V): void => {
    map.set(key, [...(map.get(key) ?? []), value])
  }

  return {
    facts({ executionId, partnerOrderId }) {
      const execution = executions.get(executionId) ?? null
      const holder = holders.get(partnerOrderId)?.find((one) => one.executionId !== executionId)
      return {
        execution,
        window: execution && (windows.get(execution.windowId) ?? null),
        trade: trades.get(executionId) ?? null,
        lateFills: (lateFills.get(executionId) ?? []).map(({ late }) => late),
        orderHeldBy: holder?.executionId ?? null,
        latestRecordedAt: latest,
      }
    },

    take(confirmation, now) {
      if (confirmation.kind === 'recorded') {
        const { execution, window, trade } = confirmation
        const { executionId } = execution
        executions.set(executionId, execution)
        windows.set(window.windowId, window)
        trades.set(executionId, trade)
        add(holders, trade.report.partnerOrderId, {
          partnerOrderId: trade.report.partnerOrderId,
          executionId,
        })
        latest = latest === null ? trade.recordedAt : later(latest, trade.recordedAt)
        recorded.push(confirmation)
      }
      if (confirmation.kind === 'refused') {
        const { executionId } = confirmation.execution
        if (confirmation.keeping === 'new')
          add(lateFills, executionId, { executionId, late: keptLate(confirmation, now) })
        refused.push(confirmation)
      }
    },

    changes() {
      const touched = new Set(recorded.map(({ window }) => window.windowId))
      return { recorded, refused, windows: [...touched].map((id) => windows.get(id) as Window) }
    },
  }
}

/** As it will be once it is written; its number is only given then. */
const keptLate = ({ report, reason }: Refused, now: Instant): LateFill => ({
  reportId: 0,
  report,
  reason,
  receivedAt: now,
  acceptedAt: null,
  decidedAt: null,
  decisionReason: null,
})

// The reads and writes of confirmations, many in a few statements. The caller has locked the executions
// (../shared/ledger.ts).

// The plus keeps the planner from reading everything that a tenant has: it knows little about tables that have just
// begun to grow, and then sticks to its plan.
const ASKED = 'execution_id = any(:execution_ids::text[]) and +tenant_id = :tenant'
const EXECUTIONS = query<ExecutionRow>(
  `${SELECT_EXECUTION} where e.execution_id = any(:execution_ids::text[]) and +e.tenant_id = :tenant`,
)
const WINDOWS = query<WindowRow>(
  `select * from windows where window_id in (select window_id from executions where ${ASKED})`,
)
const TRADES = query<TradeRow>(`select * from trades where ${ASKED}`)
const KEPT_REPORTS = query<LateFillRow>(`select * from late_reports where ${ASKED} order by report_id`)
const HOLDERS = query<{ partner_order_id: string; execution_id: string }>(
  `select partner_order_id, execution_id from trades
     where partner_order_id = any(:orders::text[]) and +tenant_id = :tenant
   union all select partner_order_id, execution_id from adjustments
     where partner_order_id = any(:orders::text[]) and +tenant_id = :tenant`,
)

const SETTLED = arraysFor('executions', ['execution_id', 'status'])
const SETTLE = query(
  `update executions set status = r.status from ${rowsIn(SETTLED, 'r')}
   where executions.execution_id = r.execution_id and +executions.tenant_id = :tenant`,
)
const TRADED = arraysFor('trades', columnsToAdd('trades', 'user_id'))
// In the order of what there is once: another host that adds some of the same orders waits for this one, or this for
// it.
const INSERT_TRADES = query(
  `insert into trades (${namesOf(TRADED)}, user_id)
   select r.*, p.user_id from ${rowsIn(TRADED, 'r')} join plans p on p.plan_id = r.plan_id
   order by r.partner_order_id`,
)
const AMOUNTS = arraysFor('windows', ['window_id', 'reserved', 'spent', 'excess', 'released'])
const WRITE_WINDOWS = query(
  `update windows set reserved = r.reserved, spent = r.spent, excess = r.excess, released = r.released
   from ${rowsIn(AMOUNTS, 'r')} where windows.window_id = r.window_id`,
)
const FIREABLE = arraysFor('schedules', ['plan_id', 'window_id', 'fireable'])
// A purchase of exactly what was reserved gives nothing back, and writes nothing here.
const REFUND = query(
  `update schedules set fireable = r.fireable from ${rowsIn(FIREABLE, 'r')}
   where schedules.plan_id = r.plan_id and schedules.window_id = r.window_id
     and schedules.fireable <> r.fireable`,
)

/** Reads what is asked for, for decisions one after the other. */
async function readBatch(tx: Tx, tenantId: number, asked: readonly Asked[]): Promise<ConfirmationBatch> {
  const of = { tenant: tenantId, execution_ids: asked.map(({ executionId }) => executionId) }
  const [executions, windows, trades, lateFills, holders, latest] = await Promise.all([
    tx.all(EXECUTIONS, of),
    tx.all(WINDOWS, of),
    tx.all(TRADES, of),
    tx.all(KEPT_REPORTS, of),
    tx.all(HOLDERS, { tenant: tenantId, orders: asked.map(({ partnerOrderId }) => partnerOrderId) }),
    within(tx, (steps) => latestRecordedAt(steps, tenantId)),
  ])
  return createBatch({
    executions: executions.map(executionOf),
    windows: windows.map(windowOf),
    trades: trades.map(tradeOf),
    lateFills: lateFills.map((row) => ({ executionId: row.execution_id, late: lateFillOf(row) })),
    holders: holders.map((row) => ({
      partnerOrderId: row.partner_order_id,
      executionId: row.execution_id as ExecutionId,
    })),
    latestRecordedAt: latest,
  })
}

/** Stores the decisions: trades, the new statuses of their executions, windows, and late fills. */
async function writeBatch(tx: Tx, tenantId: number, batch: ConfirmationBatch, now: Instant): Promise<void> {
  const { recorded, refused, windows } = batch.changes()
  const tenant = tenantId
  const settled = recorded.map(({ execution: { executionId, status } }) => ({
    execution_id: executionId,
    status,
  }))
  const traded = recorded.map(({ execution: { planId }, trade }) => tradeParams({ tenantId, planId }, trade))
  await Promise.all([
    writeWindows(tx, windows),
    recorded.length > 0 && tx.run(SETTLE, { tenant, ...arraysOf(SETTLED, settled) }),
    recorded.length > 0 && tx.run(INSERT_TRADES, arraysOf(TRADED, traded)),
    keep(tx, tenantId, refused, now),
    ...recorded.map(
      ({ settles }) =>
        settles !== null &&
        within(tx, (steps) => decideLate(steps, settles, { now, reason: RECORDED_SINCE })),
    ),
  ])
}

/** Stores the amounts of windows and, for the current ones among them, what their schedules may still fire. */
async function writeWindows(tx: Tx, windows: readonly Window[]): Promise<void> {
  const fireable = windows
    .filter(({ closed }) => closed === null)
    .map((window) => ({
      plan_id: window.planId,
      window_id: window.windowId,
      fireable: unreserved(window),
    }))
  await Promise.all([
    fireable.length > 0 && tx.run(REFUND, arraysOf(FIREABLE, fireable)),
    windows.length > 0 && tx.run(WRITE_WINDOWS, arraysOf(AMOUNTS, windows.map(amountParams))),
  ])
}

// Jobs that share a transaction: those that arrive while one transaction is running make up the next.

/** The outcome of one job of a batch whose transaction was committed. */
type Outcome<A> = { ok: true; value: A } | { ok: false; error: unknown }

/**
 * One batch at a time. `run` returns one outcome per job, in the order of the jobs; if it throws, all jobs throw that.
 */
function createLane<J, A>(
  run: (jobs: readonly J[]) => Promise<readonly Outcome<A>[]>,
): (job: J) => Promise<A> {
  const waiting: { job: J; resolve: (value: A) => void; reject: (error: unknown) => void }[] = []
  const queue = {
    get size() {
      return waiting.length
    },
  }
  let draining = false

  async function drain(): Promise<void> {
    while (waiting.length > 0) {
      await gather(queue)
      const batch = waiting.splice(0, COMMIT_SHARE_MAX)
      try {
        const outcomes = await run(batch.map(({ job }) => job))
        for (const [i, { resolve, reject }] of batch.entries()) {
          const outcome = outcomes[i]
          if (outcome?.ok) resolve(outcome.value)
          else reject(outcome?.error)
        }
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    draining = false
  }

  return (job) =>
    new Promise((resolve, reject) => {
      waiting.push({ job, resolve, reject })
      if (draining) return
      draining = true
      // Not at once, so that the other calls of this turn of the event loop can join the same transaction.
      setImmediate(drain)
    })
}
