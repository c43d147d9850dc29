// Passes on a file: which plans are due, and their pages, which belong to one process. A twin of ../postgres/pass.ts,
// because everything that is bought goes this way; how a pass is noted is shared (../shared/passes.ts).

import SQLite from 'better-sqlite3'
import type { ExecutionId } from '../../core/execution.ts'
import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Instant } from '../../core/time.ts'
import { type Frequency, leastInstruction, type Schedule } from '../../core/window.ts'
import { refuseFrozen } from '../frozen.ts'
import { type TenantRow, tenantOf, type WebhookRow, webhookOf } from '../rows/accounts.ts'
import { type FiredRow, firedParams, type ScheduleRow, scheduleOf, scheduleParams } from '../rows/ledger.ts'
import { createPassNotes } from '../shared/passes.ts'
import type { Staging } from '../shared/prices.ts'
import { allSandboxDue, type OwnSandboxes, type Rows, wipedRows } from '../shared/sandboxes.ts'
import { usersStopping } from '../shared/users.ts'
import { breathe } from '../statement.ts'
import {
  type DueRanges,
  type Fired,
  type PassCounts,
  type PassStore,
  type PlanDecisions,
  type WakeUpStore,
  wakeUpsOf,
} from '../store.ts'
import { assigned, columnsToAdd, insertInto } from '../tables.ts'
import type { Times } from '../transaction.ts'
import { byHand, type Driver } from './driver.ts'
import type { Connection, Database } from './file/connection.ts'
import { lockFile } from './file/files.ts'
import { acquireLock } from './file/locks.ts'
import { insertRows } from './file/statements.ts'
import { watchOthers } from './file/write-queue.ts'
import type { TenantTime } from './tenant-time.ts'
import { createLedger } from './windows.ts'

/** How long the write lock is left to others between two pages. */
const YIELD_MS = 2

type Parts = {
  driver: Driver
  runPage: RunPage
  writeWakeUps: WriteWakeUps
  time: TenantTime
  file: string
}

export function createPassStore(connection: Connection, parts: Parts): PassStore {
  const { driver, runPage, writeWakeUps, time, file } = parts
  const { db, frozen, read, write } = connection
  const sql = prepare(connection)
  const dueInRealTime = createDuePlans(connection)
  const pageSize = createPageSize()

  const timesAt = (real: Instant): Times => ({ real, of: time.ofTenants(real) })

  async function listDuePlans(due: DueRanges): Promise<PlanIds> {
    const asked = { now: due.now, lead: due.leadMs, price: due.livePrice }
    const sandboxes = await read(() => sql.sandboxDue.all(asked))
    return eachOnce([...(await dueInRealTime(due)), Float64Array.from(sandboxes, Number)])
  }

  async function* duePages(_passId: number, due: DueRanges, pageMax: number): AsyncGenerator<number[]> {
    const planIds = await listDuePlans(due)
    const haveOthersWritten = watchOthers(db)
    for (let from = 0; from < planIds.length; ) {
      // Between pages, so that another process waiting for the write lock gets its turn.
      if (from > 0) await new Promise((resolve) => setTimeout(resolve, YIELD_MS))
      const until = from + pageSize.next(pageMax, haveOthersWritten())
      yield [...planIds.subarray(from, until)]
      from = until
    }
  }

  const finish = (
    passId: number,
    { plansEvaluated, executionsCreated, windowsRolled }: PassCounts,
  ): Promise<PassCounts> =>
    write((now) => {
      sql.finishPassRow.run({
        tick_id: passId,
        plans_evaluated: plansEvaluated,
        executions_created: executionsCreated,
        windows_rolled: windowsRolled,
        finished_at: now,
      })
      return { plansEvaluated, executionsCreated, windowsRolled }
    })

  return {
    ...createPassNotes(driver, (_tx, page, times) =>
      byHand(() => runPage(page.planIds, page.decisions, times)),
    ),

    async joinPass() {
      const leave = acquireLock(lockFile(file, 'pass'))
      // A pass belongs to one process: with a single writer, a second process would not help.
      return (
        leave && {
          pass: (begin) => begin(),
          duePages,
          finish: (passId, counts) => finish(passId, counts).finally(leave),
          leave: async () => leave(),
        }
      )
    },

    listDuePlans: async (due) => [...(await listDuePlans(due))],

    changeDuePlans: (passId, planIds, decisions) =>
      write((now) => {
        refuseFrozen(frozen(), true)
        const from = performance.now()
        const { fired, ...counts } = runPage(planIds, decisions, timesAt(now))
        writeWakeUps(passId, fired, now)
        pageSize.note({ plans: planIds.length, ms: performance.now() - from })
        return counts
      }),

    // A row that the schema refuses says nothing about the others; a disk that is locked, full or broken concerns them
    // all.
    isOutage: (error) => error instanceof SQLite.SqliteError && !error.code.startsWith('SQLITE_CONSTRAINT'),
  }
}

/** The counts that are kept for a tenant. */
export const COUNTS: Rows = [['outcomes', 'tenant_id = :tenant']]
const WIPED_COUNTS = wipedRows(COUNTS)

type SandboxParts = Pick<Parts, 'driver' | 'runPage' | 'writeWakeUps' | 'file'>

export const ownSandboxes = ({ driver, runPage, writeWakeUps, file }: SandboxParts): OwnSandboxes => ({
  takeAdvance: async (tenantId) => acquireLock(`${lockFile(file, 'advance')}-${tenantId}`),
  runPage: (_tx, { planIds, decisions }, times) => byHand(() => runPage(planIds, decisions, times)),
  writeWakeUps: (_tx, wakeUpId, fired, real) => byHand(() => writeWakeUps(wakeUpId, fired, real)),
  wipe: driver.unreferenced,
  alsoWiped: WIPED_COUNTS,
})

function prepare({ db }: Connection) {
  return {
    sandboxDue: db.prepare<object, bigint>(allSandboxDue('max')).pluck(),
    finishPassRow: db.prepare(
      `update ticks set plans_evaluated = :plans_evaluated, executions_created = :executions_created,
         windows_rolled = :windows_rolled, finished_at = :finished_at
       where tick_id = :tick_id`,
    ),
  }
}

// Which plans a pass must look at: four walks along four indexes, which cost only what they find.

/** How many ids are read in one go, so that the event loop never waits long. */
const DUE_READ_MAX = 10_000
/** Below and above every instant and every price. */
const FIRST = -(2n ** 62n)
const LAST = 2n ** 62n

type DueRow = { at: bigint; plan_id: bigint }
/** From one value of a column to another, both included. */
type Walk = { from: bigint; until: bigint | number; now: Instant }

/** Lists the plans in each of the due ranges, in no order, and a plan once for each range that contains it. */
export function createDuePlans(connection: Connection): (due: DueRanges) => Promise<PlanIds[]> {
  const ranges = prepareWalks(connection)

  /** Walks one range in short reads, so that serve goes on answering. */
  async function collect(name: keyof typeof ranges, walk: Walk, into: PlanIds[]): Promise<void> {
    const { alike, beyond } = ranges[name]
    let place: DueRow = { at: walk.from, plan_id: -1n }
    for (;;) {
      const bounds = { ...walk, ...place }
      const rows = await connection.read(() => {
        const first = alike.all({ ...bounds, page: DUE_READ_MAX })
        return [...first, ...beyond.all({ ...bounds, page: DUE_READ_MAX - first.length })]
      })
      into.push(Float64Array.from(rows, (row) => Number(row.plan_id)))
      const end = rows.at(-1)
      if (!end || rows.length < DUE_READ_MAX) return
      place = end
      await breathe()
    }
  }

  return async ({ now, livePrice, leadMs }) => {
    const due: PlanIds[] = []
    await collect('nextRun', { from: FIRST, until: now, now }, due)
    await collect('failsafe', { from: FIRST, until: now + leadMs, now }, due)
    if (livePrice === null) await collect('clock', { from: FIRST, until: now, now }, due)
    else await collect('limit', { from: livePrice, until: LAST, now }, due)
    return due
  }
}

function prepareWalks({ db }: Connection) {
  // A page goes on after the last row of the page before in two steps, each of which is one walk along the index. With
  // a single comparison of (column, plan_id), SQLite would step over all rows with that same value again for each page,
  // and thousands of plans share the instant at which their slots end.
  const range = (column: string, condition: string) => {
    const select = `select ${column} as at, plan_id from schedules where awake = 1 and ${condition}`
    return {
      alike: db.prepare<object, DueRow>(
        `${select} and ${column} = :at and plan_id > :plan_id order by plan_id limit :page`,
      ),
      beyond: db.prepare<object, DueRow>(
        `${select} and ${column} > :at and ${column} <= :until order by ${column}, plan_id limit :page`,
      ),
    }
  }
  return {
    nextRun: range('next_run_at', 'next_run_at is not null'),
    failsafe: range('window_end', 'fireable >= floor and window_start <= :now'),
    limit: range('limit_price', 'limit_price is not null'),
    clock: range('clock_at', 'clock_at is not null'),
  }
}

// Lists of plan ids that may be tens of millions long: every plan is due after a long outage. They take eight bytes an
// id; a Set takes five times as much, and cannot hold more than 2^24.

type PlanIds = Float64Array

/** The ids of all lists in ascending order, each of them once. */
export function eachOnce(lists: readonly PlanIds[]): PlanIds {
  const ids = new Float64Array(lists.reduce((total, list) => total + list.length, 0))
  let end = 0
  for (const list of lists) {
    ids.set(list, end)
    end += list.length
  }
  ids.sort()
  let kept = 0
  for (const id of ids) if (kept === 0 || id !== ids[kept - 1]) ids[kept++] = id
  return ids.subarray(0, kept)
}

// Wake-ups: written in the transaction of the executions they announce, and handed out once to be sent.

type WriteWakeUps = (passId: number, fired: readonly Fired[], now: Instant) => void

export function createWakeUpWriter(db: Database): WriteWakeUps {
  // One wake-up for each tenant and pass, however many pages it took; none without an active webhook.
  const write = db.prepare(
    `insert into webhook_events (tick_id, tenant_id, count, earliest_execution_id, created_at)
     select :tick_id, tenant_id, :count, :earliest, :now from webhooks
     where tenant_id = :tenant and status = 'active'
     on conflict do update set count = count + excluded.count`,
  )
  return (passId, fired, now) => {
    for (const { tenant, count, earliest } of wakeUpsOf(fired)) {
      write.run({ tick_id: passId, tenant: tenant.tenantId, count, earliest, now })
    }
  }
}

export function createWakeUpStore({ db, write }: Connection): WakeUpStore {
  const claim = db.prepare<object, { tenant_id: bigint; count: bigint; earliest_execution_id: string }>(
    `update webhook_events set claimed_at = :now where tick_id = :tick_id and claimed_at is null
     returning tenant_id, count, earliest_execution_id`,
  )
  const active = db.prepare<[bigint], TenantRow & WebhookRow>(
    `select w.*, t.partner_slug, t.environment from webhooks w join tenants t using (tenant_id)
     where tenant_id = ? and w.status = 'active'`,
  )
  return {
    claimWakeUps: (passId) =>
      write((now) =>
        claim.all({ tick_id: passId, now }).flatMap((row) => {
          const registration = active.get(row.tenant_id)
          if (!registration) return []
          const webhook = webhookOf(registration)
          const earliest = row.earliest_execution_id as ExecutionId
          return [{ tenant: tenantOf(registration), webhook, count: Number(row.count), earliest }]
        }),
      ),

    // A pass belongs to one process: wake-ups that it had not sent when it died would come too late.
    hasLeftWakeUps: async () => false,
  }
}

// How the rows of an import of prices are staged.

export function createStaging({ db, write }: Connection, file: string): Staging {
  const sql = {
    stage: db.prepare(`${insertInto('price_imports')} on conflict do nothing`),
    clear: db.prepare('delete from price_imports'),
  }
  return {
    begin: async () => acquireLock(lockFile(file, 'import')),
    add: (batch) =>
      write(() => {
        for (const row of batch) sql.stage.run(row)
      }),
    clear: () => write(() => sql.clear.run()),
  }
}

// One page of a scheduler pass, for a transaction of the scheduler's: each plan is rolled, decided and stored.

type TermsRow = { plan_id: bigint; frequency: string; amount_usd: bigint; min_tranche: bigint }

export type RunPage = ReturnType<typeof createPageRunner>

export function createPageRunner({ within }: Driver, db: Database) {
  const ledger = createLedger(db)
  const sql = preparePage(db)
  const tenants = new Map<number, Tenant>()

  function tenantById(tenantId: number): Tenant {
    const tenant = tenants.get(tenantId) ?? tenantOf(sql.tenant.get(tenantId) as TenantRow)
    tenants.set(tenantId, tenant)
    return tenant
  }

  /** The schedule of the following window, when the present one is over. */
  function rollIfOver(schedule: Schedule, roll: PlanDecisions['roll'], now: Instant): Schedule | null {
    if (now < schedule.windowEnd) return null
    const plan = sql.terms.get(schedule.planId) as TermsRow
    const over = {
      start: schedule.windowStart,
      end: schedule.windowEnd,
      frequency: plan.frequency as Frequency,
      amount: plan.amount_usd as Usd,
    }
    const next = roll(over, now)
    if (!next) return null
    ledger.closeCurrent(schedule.planId, 'ended', now)
    const minTranche = plan.min_tranche as Usd
    const free = ledger.freeCell(schedule.planId, next, leastInstruction(minTranche, over.amount))
    return ledger.open(schedule.planId, free, minTranche)
  }

  /** Writes the fired executions at the end of a page: in a few statements, each prepared for many rows. */
  function writeFired(fired: readonly FiredRow[]): void {
    sql.addExecutions(fired.map(firedParams))
    ledger.reserve(fired.map(({ schedule, tranche }) => [schedule.windowId, tranche.amount]))
  }

  return (
    planIds: readonly number[],
    { roll, decide, newExecutionId }: PlanDecisions,
    { real, of: timeOf }: Times,
  ): PassCounts & { fired: Fired[] } => {
    const counts: PassCounts = { plansEvaluated: 0, executionsCreated: 0, windowsRolled: 0 }
    const fired: FiredRow[] = []
    let executionId = (sql.latestId.get() ?? null) as ExecutionId | null
    const stopping = new Set(within(usersStopping).map(({ user_id }) => user_id))
    for (const row of sql.awake.all({ plans: JSON.stringify(planIds) })) {
      const stored = scheduleOf(row)
      const { planId } = stored
      if (stopping.has(row.user_id)) continue
      const tenant = tenantById(Number(row.tenant_id))
      const now = timeOf(tenant.tenantId)
      counts.plansEvaluated += 1
      const rolled = rollIfOver(stored, roll, now)
      if (rolled) counts.windowsRolled += 1
      const { schedule, tranche } = decide(rolled ?? stored, now, real)
      const sameSlot = !rolled && schedule.nextRunAt === stored.nextRunAt
      const put = sameSlot ? sql.putInSlot : sql.putSchedule
      put.run(scheduleParams(schedule))
      if (!tranche) continue
      executionId = newExecutionId(executionId, real)
      fired.push({ tenant, executionId, planId, tranche, schedule, at: now })
    }
    counts.executionsCreated = fired.length
    writeFired(fired)
    return { ...counts, fired }
  }
}

/** What changes in a schedule while its plan waits in one slot. */
const IN_SLOT = assigned(
  columnsToAdd(
    'schedules',
    'plan_id',
    'window_id',
    'awake',
    'next_run_at',
    'window_start',
    'window_end',
    'budget',
    'floor',
  ),
)
function preparePage(db: Database) {
  return {
    // In the order of the ids.
    awake: db.prepare<object, ScheduleRow & { tenant_id: bigint; user_id: bigint }>(
      `select s.*, p.tenant_id, p.user_id from json_each(:plans) due
       cross join schedules s on s.plan_id = due.value cross join plans p on p.plan_id = s.plan_id
       where s.awake = 1`,
    ),
    tenant: db.prepare<[number], TenantRow>('select * from tenants where tenant_id = ?'),
    terms: db.prepare<[number], TermsRow>(
      `select plans.*, min_tranche
       from plans join tenants using (tenant_id) join partners using (partner_slug) where plan_id = ?`,
    ),
    putSchedule: db.prepare(
      `update schedules set next_run_at = :next_run_at, awake = 1, ${IN_SLOT} where plan_id = :plan_id`,
    ),
    // The index of a column that is not named is not written.
    putInSlot: db.prepare(`update schedules set ${IN_SLOT} where plan_id = :plan_id`),
    addExecutions: insertRows(db, 'executions', columnsToAdd('executions')),
    latestId: db.prepare<[], string | null>('select max(execution_id) from executions').pluck(),
  }
}

// How many plans a page of a pass has: as many as keep the write lock no longer than others should wait for it. Over
// few plans, a thousand take 20 ms with their commit; over a million, whose pages of the file are all new to the
// cache, 40.

/**
 * How long the work on a page should take, without its commit: when nobody else writes, and when some do. What a commit
 * waits for the disk is the same for every page: on a slow disk, smaller ones would only make it wait more often.
 */
const PAGE_MS = { alone: 15, shared: 4 }
/** Fewer plans would cost the pass more in commits than they spare others in waiting. */
const PLANS_MIN = 100
/** The size of the first page, before any is measured. */
const PLANS_AT_FIRST = 250

type PageSize = {
  /** How many plans the next page has, `max` at most. */
  next(max: number, isShared: boolean): number
  /** Must be called for each page, with its time without the commit. */
  note(page: { plans: number; ms: number }): void
}

export function createPageSize(): PageSize {
  let msPerPlan: number | null = null
  let plansBefore = PLANS_AT_FIRST

  return {
    next(max, isShared) {
      const fit = msPerPlan === null ? plansBefore : PAGE_MS[isShared ? 'shared' : 'alone'] / msPerPlan
      // No more than twice the previous page: one that was quick by chance tells little about the next.
      plansBefore = Math.min(max, Math.max(PLANS_MIN, Math.floor(Math.min(fit, 2 * plansBefore))))
      return plansBefore
    },
    note({ plans, ms }) {
      // A page of few plans, as after a failed one, tells more about a commit than about plans.
      if (plans >= PLANS_MIN) msPerPlan = ms / plans
    },
  }
}
