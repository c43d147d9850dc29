// Windows and what depends on them, for the transactions of the other files: it begins none of its own.

import type { Instant } from '../../../core/instant.ts'
import type { Usd } from '../../../core/money.ts'
import { openSlot, slotAfter } from '../../../core/next-window.ts'
import { freshSchedule, type Schedule } from '../../../core/schedule-state.ts'
import {
  type CloseReason,
  close,
  type Opening,
  opened,
  reserve,
  unreserved,
  type Window,
} from '../../../core/window.ts'
import { intact } from '../../digests.ts'
import { instantOrNull } from '../../rows/instant.ts'
import { scheduleParams } from '../../rows/schedule.ts'
import { amountParams, closingParams, openingParams, type WindowRow, windowOf } from '../../rows/window.ts'
import { AWAKE } from '../../sql/may-fire.ts'
import {
  PUT_SCHEDULE,
  SLOT_USE,
  WRITE_CLOSED_WINDOW,
  WRITE_OPEN_WINDOW,
} from '../../sql/windows-and-schedules.ts'
import type { Database } from '../file/connection.ts'
import { createCancelOpen } from './cancel-open.ts'

export type Ledger = ReturnType<typeof createLedger>

export function createLedger(db: Database) {
  const sql = {
    window: db.prepare<[number | bigint], WindowRow>('select * from windows where window_id = ?'),
    // In the order of the ids; the last are missing when any is.
    windows: db.prepare<object, WindowRow>(
      'select w.* from json_each(:windows) asked cross join windows w on w.window_id = asked.value',
    ),
    current: db.prepare<[number], WindowRow>('select * from windows where plan_id = ? and closed_at is null'),
    openWindow: db.prepare(
      `insert into windows (plan_id, window_start, window_end, budget, digest)
       values (:plan_id, :window_start, :window_end, :budget, :digest)`,
    ),
    slotUse: db.prepare<object, { claimed: bigint; used: bigint | null }>(SLOT_USE),
    writeOpen: db.prepare(WRITE_OPEN_WINDOW),
    writeClosed: db.prepare(WRITE_CLOSED_WINDOW),
    reserve: db.prepare<[bigint, number]>('update windows set reserved = ? where window_id = ?'),
    refund: db.prepare<[bigint, number, number]>(
      'update schedules set fireable = ? where plan_id = ? and window_id = ?',
    ),
    putSchedule: db.prepare(PUT_SCHEDULE),
    dropSchedule: db.prepare('delete from schedules where plan_id = ?'),
    wake: db.prepare(`update schedules set awake = ${AWAKE} where plan_id = ?`),
  }

  const ledger = {
    /** As it is stored, for a listing. */
    find(windowId: number | bigint): Window | null {
      const row = sql.window.get(windowId)
      return row ? windowOf(row) : null
    },

    /** To be acted on. Throws DamagedRow. */
    sound(windowId: number | bigint): Window | null {
      const row = sql.window.get(windowId)
      return row ? windowOf(intact('windows', row)) : null
    },

    current(planId: number): Window | null {
      const row = sql.current.get(planId)
      return row ? windowOf(row) : null
    },

    /** Stores a window's ledger and, while it is its plan's current one, what the schedule may still fire. */
    write(window: Window): void {
      if (window.closed) {
        sql.writeClosed.run({ ...amountParams(window), ...closingParams(window.closed) })
        return
      }
      sql.writeOpen.run(amountParams(window))
      sql.refund.run(unreserved(window), window.planId, window.windowId)
    },

    /** Reserves amounts in current windows. The schedules that asked for them have already counted them. */
    reserve(amounts: readonly (readonly [windowId: number, amount: Usd])[]): void {
      const seen = sql.windows.all({ windows: JSON.stringify(amounts.map(([windowId]) => windowId)) })
      amounts.forEach(([windowId, amount], i) => {
        const row = seen[i]
        if (!row) throw new Error(`there is no window ${windowId}`)
        sql.reserve.run(reserve(windowOf(intact('windows', row)), amount).reserved, windowId)
      })
    },

    /** The first slot from `slot` on that has money left, as a window to open: nearly always that very slot. */
    freeSlot(planId: number, slot: Opening, floor: Usd): Opening {
      for (let next = slot; ; next = slotAfter(next)) {
        const { claimed, used } = sql.slotUse.get({ plan_id: planId, start: next.start, end: next.end }) as {
          claimed: bigint
          used: bigint | null
        }
        const found = openSlot(next, { claimed: claimed as Usd, usedStart: instantOrNull(used) }, floor)
        if (found) return found
      }
    },

    open(planId: number, opening: Opening, minTranche: Usd): Schedule {
      const { lastInsertRowid } = sql.openWindow.run(openingParams(planId, opening))
      const window = opened(opening, { planId, windowId: Number(lastInsertRowid) })
      const schedule = freshSchedule(window, minTranche)
      sql.putSchedule.run(scheduleParams(schedule))
      return schedule
    },

    closeCurrent(planId: number, reason: CloseReason, now: Instant): void {
      const window = ledger.current(planId)
      if (window) ledger.write(close(window, now, reason))
      sql.dropSchedule.run(planId)
    },

    /** Puts a plan's schedule into the due set or takes it out, by what its plan and partner now are. */
    wake(planId: number): void {
      sql.wake.run(planId)
    },

    cancelOpen: createCancelOpen(db),
  }
  return ledger
}
