// Windows and schedules as a pass writes them on a file, row by row: a page has a thousand plans.

import type { Usd } from '../../core/money.ts'
import type { Instant } from '../../core/time.ts'
import {
  type CloseReason,
  cellAfter,
  close,
  freshSchedule,
  type Opening,
  openCell,
  opened,
  reserve,
  type Schedule,
  unreserved,
  type Window,
} from '../../core/window.ts'
import {
  amountParams,
  closingParams,
  openingParams,
  scheduleParams,
  type WindowRow,
  windowOf,
} from '../rows/ledger.ts'
import { WINDOWS } from '../shared/ledger.ts'
import { instantOrNull } from '../statement.ts'
import { preparedAll } from './driver.ts'
import type { Database } from './file/connection.ts'

export type Ledger = ReturnType<typeof createLedger>

export function createLedger(db: Database) {
  const sql = {
    ...preparedAll(db, WINDOWS),
    // In the order of the ids; the last are missing when any is.
    windows: db.prepare<object, WindowRow>(
      'select w.* from json_each(:windows) asked cross join windows w on w.window_id = asked.value',
    ),
    reserve: db.prepare<[bigint, number]>('update windows set reserved = ? where window_id = ?'),
  }

  const ledger = {
    /** A plan's current window, as it is stored. */
    current(planId: number): Window | null {
      const row = sql.current.get({ plan_id: planId })
      return row ? windowOf(row) : null
    },

    /** Stores a window's ledger and, while it is its plan's current one, what the schedule may still fire. */
    write(window: Window): void {
      const amounts = amountParams(window)
      if (window.closed) {
        sql.writeClosed.run({ ...amounts, ...closingParams(window.closed) })
        return
      }
      const { planId, windowId } = window
      sql.writeOpen.run(amounts)
      sql.refund.run({ fireable: unreserved(window), plan_id: planId, window_id: windowId })
    },

    /** Reserves amounts in current windows. The schedules that asked for them have already counted them. */
    reserve(amounts: readonly (readonly [windowId: number, amount: Usd])[]): void {
      const rows = sql.windows.all({ windows: JSON.stringify(amounts.map(([windowId]) => windowId)) })
      amounts.forEach(([windowId, amount], i) => {
        const row = rows[i]
        if (!row) throw new Error(`there is no window ${windowId}`)
        sql.reserve.run(reserve(windowOf(row), amount).reserved, windowId)
      })
    },

    /** The first cell from `cell` on that has money left, as a window to open: nearly always that very cell. */
    freeCell(planId: number, cell: Opening, floor: Usd): Opening {
      for (let next = cell; ; next = cellAfter(next)) {
        const use = sql.cell.get({ plan_id: planId, start: next.start, end: next.end })
        const usedStart = instantOrNull(use?.used ?? null)
        const found = openCell(next, { claimed: (use?.claimed ?? 0n) as Usd, usedStart }, floor)
        if (found) return found
      }
    },

    open(planId: number, opening: Opening, minTranche: Usd): Schedule {
      const { lastInsertRowid } = sql.open.run({ window_id: null, ...openingParams(planId, opening) })
      const window = opened(opening, { planId, windowId: Number(lastInsertRowid) })
      const schedule = freshSchedule(window, minTranche)
      sql.put.run(scheduleParams(schedule))
      return schedule
    },

    closeCurrent(planId: number, reason: CloseReason, now: Instant): void {
      const window = ledger.current(planId)
      if (window) ledger.write(close(window, now, reason))
      sql.dropSchedule.run({ plan_id: planId })
    },
  }
  return ledger
}
