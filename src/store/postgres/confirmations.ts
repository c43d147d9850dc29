// Confirmations: those of one tenant wait in one lane of this process, and share a transaction.

import {
  type Confirmation,
  type ExecutionFacts,
  type LateFill,
  RECORDED_SINCE,
  type Recorded,
  type Refused,
} from '../../core/confirmation.ts'
import type { Execution, ExecutionId } from '../../core/execution.ts'
import type { Caller, Tenant } from '../../core/partner.ts'
import type { Trade } from '../../core/partner-report.ts'
import { DamagedRow } from '../../core/problem.ts'
import { type Instant, later } from '../../core/time.ts'
import { unreserved, type Window } from '../../core/window.ts'
import { intact } from '../digests.ts'
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
import { decideLate, latestRecordedAt } from '../shared/executions.ts'
import { SELECT_EXECUTION } from '../sql/fragments.ts'
import { query } from '../statement.ts'
import { columnsToAdd } from '../tables.ts'
import { callOf } from '../transaction.ts'
import { COMMIT_SHARE_MAX, gather } from '../writes.ts'
import { within } from './driver.ts'
import { lockExecutions } from './plans.ts'
import { type Connection, onceMore } from './server/connection.ts'
import { isRowsFault, isTaken } from './server/errors.ts'
import type { Entered } from './server/month-gate.ts'
import type { Tx } from './server/pipeline.ts'
import { arraysFor, arraysOf, namesOf, rowsIn } from './server/pipeline.ts'

// Late fills.

const KEPT = arraysFor('late_reports', columnsToAdd('late_reports'))
const KEEP = query(
  `insert into late_reports (${namesOf(KEPT)})
   select ${namesOf(KEPT)} from ${rowsIn(KEPT, 'r')} on conflict (execution_id, fingerprint) do nothing`,
)
const COUNTED = arraysFor('executions', ['execution_id'])
const COUNT = query(
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
    counted.length > 0 && tx.run(COUNT, arraysOf(COUNTED, counted)),
  ])
}

type Decide = (facts: ExecutionFacts, now: Instant) => Confirmation
type Job = { ids: Asked; decide: Decide; keyId: string | undefined }
type Confirmed = Outcome<Confirmation>

export function createConfirm(connection: Connection) {
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
  /** By execution, why it cannot be decided. */
  damaged: ReadonlyMap<string, DamagedRow>
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
      const damage = found.damaged.get(executionId)
      if (damage) throw damage
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
    damaged: damagedOf(executions, windows),
    trades: trades.map(tradeOf),
    lateFills: lateFills.map((row) => ({ executionId: row.execution_id, late: lateFillOf(row) })),
    holders: holders.map((row) => ({
      partnerOrderId: row.partner_order_id,
      executionId: row.execution_id as ExecutionId,
    })),
    latestRecordedAt: latest,
  })
}

/** The executions that are damaged themselves, or in a window that is: each is refused alone. */
function damagedOf(
  executions: readonly ExecutionRow[],
  windows: readonly WindowRow[],
): Map<string, DamagedRow> {
  const damaged = new Map<string, DamagedRow>()
  for (const row of executions) {
    const window = windows.find(({ window_id }) => window_id === row.window_id)
    try {
      intact('executions', row)
      if (window) intact('windows', window)
    } catch (error) {
      if (!(error instanceof DamagedRow)) throw error
      damaged.set(row.execution_id, error)
    }
  }
  return damaged
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
