// Passes: recorded, done page by page, and deleted after a week; and what a pass would do now.

import SQLite from 'better-sqlite3'
import { PASS_GAPS_SEEN } from '../../../core/failsafe-start.ts'
import type { Instant } from '../../../core/instant.ts'
import { FAILURE_MAX, gapsMs, PASSES_KEPT } from '../../pass-history.ts'
import type { DueRanges, PassCounts, PassStart, PassStore, Preview } from '../../passes.ts'
import { type Connection, databaseBytes } from '../file/connection.ts'
import { watchOthers } from '../file/others.ts'
import { lockFile } from '../file/own-files.ts'
import { acquireLock } from '../file/process-lock.ts'
import type { SandboxDue } from '../sandbox/due-plans.ts'
import { createDuePlans } from './due-plans.ts'
import { createPageSize } from './page-size.ts'
import { eachOnce, type PlanIds } from './plan-ids.ts'
import type { RunPage } from './plan-page.ts'
import type { PriceBook } from './prices.ts'
import type { WriteWakeUps } from './wake-ups.ts'

/** How long the write lock is left to others between two pages. */
const YIELD_MS = 2

type Parts = {
  book: PriceBook
  runPage: RunPage
  writeWakeUps: WriteWakeUps
  sandboxDue: SandboxDue
  file: string
}

export function createPassStore(connection: Connection, parts: Parts): PassStore {
  const { book, runPage, writeWakeUps, sandboxDue, file } = parts
  const { db, read, write } = connection
  const sql = prepare(connection)
  const dueInRealTime = createDuePlans(connection)
  const pageSize = createPageSize()

  /** What is known to a pass at `now`, whose own row is the last of the table. */
  function known(now: Instant): Omit<PassStart, 'passId'> {
    return knownAfter(now, sql.passTimes.all({ limit: PASS_GAPS_SEEN + 1 }))
  }

  const knownAfter = (now: Instant, latestFirst: readonly bigint[]): Omit<PassStart, 'passId'> => ({
    at: now,
    price: book.newest(now),
    volatility: book.volatility(),
    passGapsMs: gapsMs(latestFirst),
  })

  async function listDuePlans(due: DueRanges): Promise<PlanIds> {
    const [real, sandboxes] = [await dueInRealTime(due), await sandboxDue.all(due)]
    return eachOnce([...real, Float64Array.from(sandboxes)])
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
    async joinPass() {
      const leave = acquireLock(lockFile(file, 'pass'))
      // A pass belongs to one process: with a single writer, a second process would be no help.
      return (
        leave && {
          joined: null,
          finish: (passId, counts) => finish(passId, counts).finally(leave),
          leave: async () => leave(),
        }
      )
    },

    beginPass: (observed, asked = null) =>
      write((now) => {
        if (observed) book.add(now, observed.price, observed.source)
        const { lastInsertRowid } = sql.addPass.run({
          at: now,
          price: observed?.price ?? null,
          feed: asked?.name ?? null,
          feed_failure: asked?.failure?.slice(0, FAILURE_MAX) ?? null,
          database_bytes: databaseBytes(db),
        })
        const before = Number(lastInsertRowid) - PASSES_KEPT
        sql.forgetPasses.run({ before })
        sql.forgetEvents.run({ before })
        return { passId: Number(lastInsertRowid), ...known(now) }
      }),

    peekPass: () =>
      read(() => {
        // Includes the gap that a pass at this moment would end: it helps decide how early the failsafe begins.
        const now = connection.clock()
        return knownAfter(now, [BigInt(now), ...sql.passTimes.all({ limit: PASS_GAPS_SEEN })])
      }),

    listDuePlans: async (due) => [...(await listDuePlans(due))],

    async *duePages(_passId, due, pageMax) {
      const planIds = due ? await listDuePlans(due) : eachOnce([])
      const haveOthersWritten = watchOthers(db)
      for (let from = 0; from < planIds.length; ) {
        // Between pages, so that another process waiting for the write lock gets its turn.
        if (from > 0) await new Promise((resolve) => setTimeout(resolve, YIELD_MS))
        const until = from + pageSize.next(pageMax, haveOthersWritten())
        yield [...planIds.subarray(from, until)]
        from = until
      }
    },

    changeDuePlans: (passId, planIds, decisions) =>
      write((now) => {
        const from = performance.now()
        const { fired, ...counts } = runPage(planIds, decisions, now)
        writeWakeUps(passId, fired, now)
        pageSize.note({ plans: planIds.length, ms: performance.now() - from })
        return counts
      }),

    async previewDuePlans(planIds, decisions) {
      // Done for real and then undone, so that what is shown cannot differ from what would happen.
      const undo = new Undo<Preview[]>()
      await write((now) => {
        const { fired } = runPage(planIds, decisions, now)
        undo.value = fired.map((one) => ({ ...one, partnerPlanId: sql.planName.get(one.planId) ?? '' }))
        throw undo
      }).catch((error) => {
        if (error !== undo) throw error
      })
      return undo.value ?? []
    },

    // A row that the schema refuses says nothing about the others; a disk that is locked, full or broken concerns them
    // all.
    isOutage: (error) => error instanceof SQLite.SqliteError && !error.code.startsWith('SQLITE_CONSTRAINT'),
  }
}

class Undo<T> extends Error {
  value: T | undefined
}

function prepare({ db }: Connection) {
  return {
    planName: db.prepare<[number], string>('select partner_plan_id from plans where plan_id = ?').pluck(),
    addPass: db.prepare(
      `insert into ticks (at, price, feed, feed_failure, database_bytes)
       values (:at, :price, :feed, :feed_failure, :database_bytes)`,
    ),
    forgetPasses: db.prepare('delete from ticks where tick_id <= :before'),
    passTimes: db.prepare<object, bigint>('select at from ticks order by tick_id desc limit :limit').pluck(),
    forgetEvents: db.prepare('delete from webhook_events where tick_id <= :before'),
    finishPassRow: db.prepare(
      `update ticks set plans_evaluated = :plans_evaluated, executions_created = :executions_created,
         windows_rolled = :windows_rolled, finished_at = :finished_at
       where tick_id = :tick_id`,
    ),
  }
}
