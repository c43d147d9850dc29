// Passes on a file: how a process takes its turn, the due plans, and the sizes of pages; and how other jobs are limited
// to one process. The pass itself is shared (../shared/passes.ts, ../shared/pages.ts).

import SQLite from 'better-sqlite3'
import type { Instant } from '../../core/time.ts'
import { joined, type OwnPasses, type PageSizes, type PlanIds } from '../shared/passes.ts'
import type { OwnImports } from '../shared/prices.ts'
import { ALL_SANDBOX_DUE, type OwnSandboxes, type Rows, wipedRows } from '../shared/sandboxes.ts'
import { breathe } from '../statement.ts'
import type { DueRanges } from '../store.ts'
import type { Driver } from './driver.ts'
import type { Connection, Database } from './file/connection.ts'
import { lockFile } from './file/files.ts'
import { acquireLock } from './file/locks.ts'
import { watchOthers } from './file/write-queue.ts'

export const ownPasses = (connection: Connection, file: string): OwnPasses => ({
  async takeTurn() {
    const end = acquireLock(lockFile(file, 'pass'))
    // The lock is the system's: nobody else can end it.
    return end && { keep: async () => {}, end }
  },
  listDue: createDueList(connection),
  pages: createPages(connection.db),
  followPartners: async () => {},
  // A row that the schema refuses says nothing about others; a disk that is locked, full or broken concerns all.
  isOutage: (error) => error instanceof SQLite.SqliteError && !error.code.startsWith('SQLITE_CONSTRAINT'),
})

/** The counts that are kept for a tenant. */
export const COUNTS: Rows = [['outcomes', 'tenant_id = :tenant']]
const WIPED_COUNTS = wipedRows(COUNTS)

export const ownSandboxes = (driver: Driver, file: string): OwnSandboxes => ({
  takeAdvance: async (tenantId) => acquireLock(`${lockFile(file, 'advance')}-${tenantId}`),
  wipe: driver.unreferenced,
  alsoWiped: WIPED_COUNTS,
})

export const ownImports = ({ write }: Driver, file: string): OwnImports => ({
  begin: async () => acquireLock(lockFile(file, 'import')),
  stage: write,
})

// Which plans a pass must look at: four walks along four indexes, which cost only what they find.

/** How many ids are read in one go, so that the event loop never waits long. */
const DUE_READ_MAX = 10_000
/** Below and above every instant and every price. */
const FIRST = -(2n ** 62n)
const LAST = 2n ** 62n

type DueRow = { at: bigint; plan_id: bigint }
/** From one value of a column to another, both included. */
type Walk = { from: bigint; until: bigint | number; now: Instant }

function createDueList(connection: Connection): (due: DueRanges) => Promise<PlanIds> {
  const ranges = prepareWalks(connection)
  const sandboxDue = connection.db.prepare<object, bigint>(ALL_SANDBOX_DUE).pluck()

  /** Walks one range in short reads, so that serve keeps answering. */
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
    const asked = { now, lead: leadMs, price: livePrice }
    const sandboxes = await connection.read(() => sandboxDue.all(asked))
    return eachOnce([...due, Float64Array.from(sandboxes, Number)])
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

/** The ids of all lists in ascending order, without duplicates. */
export function eachOnce(lists: readonly PlanIds[]): PlanIds {
  const ids = joined(lists).sort()
  let kept = 0
  for (const id of ids) if (kept === 0 || id !== ids[kept - 1]) ids[kept++] = id
  return ids.subarray(0, kept)
}

// The size of a page: as many plans as keep the write lock no longer than others should wait for it. Over few plans, a
// thousand take 20 ms with their commit; over a million, whose pages of the file are all new to the cache, 40.

/**
 * How long the work on a page should take, without its commit: when nobody else writes, and when some do. A commit
 * waits for the disk as long for every page, so on a slow disk smaller pages would only wait more often.
 */
const PAGE_MS = { alone: 15, shared: 4 }
/** With fewer plans, commits would cost the pass more than others gain. */
const PLANS_MIN = 100
/** The size of the first page, before any is measured. */
const PLANS_AT_FIRST = 250

/** How long the write lock is left to others between two pages. */
const YIELD_MS = 2

function createPages(db: Database): PageSizes {
  const size = createPageSize()
  const haveOthersWritten = watchOthers(db)
  return {
    async next(max, isFirst) {
      if (!isFirst) await new Promise((resolve) => setTimeout(resolve, YIELD_MS))
      const isShared = haveOthersWritten()
      return size.next(max, isShared && !isFirst)
    },
    note: size.note,
  }
}

export function createPageSize() {
  let msPerPlan: number | null = null
  let plansBefore = PLANS_AT_FIRST

  return {
    /** How many plans the next page has, `max` at most. */
    next(max: number, isShared: boolean): number {
      const fit = msPerPlan === null ? plansBefore : PAGE_MS[isShared ? 'shared' : 'alone'] / msPerPlan
      // No more than twice the previous page: one that was quick by chance tells little about the next.
      plansBefore = Math.min(max, Math.max(PLANS_MIN, Math.floor(Math.min(fit, 2 * plansBefore))))
      return plansBefore
    },
    note({ plans, ms }: Parameters<PageSizes['note']>[0]): void {
      // A page of few plans, as after a failed one, tells more about a commit than about plans.
      if (plans >= PLANS_MIN) msPerPlan = ms / plans
    },
  }
}
