// Windows and what depends on them, for the transactions of the other files: it begins none of its own. The caller has
// locked the plan's schedule and window (row-locks.ts).

import type { Instant } from '../../../core/instant.ts'
import type { Usd } from '../../../core/money.ts'
import { openSlot, slotAfter } from '../../../core/next-window.ts'
import { freshSchedule } from '../../../core/schedule-state.ts'
import {
  type CloseReason,
  close,
  type Opening,
  opened,
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
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'

const WINDOW = query<WindowRow>('select * from windows where window_id = :window_id')
const CURRENT = query<WindowRow>('select * from windows where plan_id = :plan_id and closed_at is null')
const NEXT_ID = query<{ window_id: bigint }>(
  `select nextval(pg_get_serial_sequence('windows', 'window_id')) as window_id`,
)
const OPEN = query(
  `insert into windows (window_id, plan_id, window_start, window_end, budget, digest)
   values (:window_id, :plan_id, :window_start, :window_end, :budget, :digest)`,
)
const SLOT = query<{ claimed: bigint; used: bigint | null }>(SLOT_USE)
const WRITE_OPEN = query(WRITE_OPEN_WINDOW)
const WRITE_CLOSED = query(WRITE_CLOSED_WINDOW)
const REFUND = query(
  'update schedules set fireable = :fireable where plan_id = :plan_id and window_id = :window_id',
)
const PUT = query(PUT_SCHEDULE)
const DROP_SCHEDULE = query('delete from schedules where plan_id = :plan_id')
const WAKE = query(`update schedules set awake = ${AWAKE} where plan_id = any(:plan_ids::bigint[])`)

type NewWindow = { planId: number; windowId: number; opening: Opening; minTranche: Usd }

const windowOrNull = (row: WindowRow | undefined): Window | null =>
  row ? windowOf(intact('windows', row)) : null

async function closeWindow(tx: Tx, planId: number, reason: CloseReason, now: Instant): Promise<void> {
  const window = await ledger.current(tx, planId)
  if (window) await ledger.write(tx, close(window, now, reason))
}

export const ledger = {
  find: async (tx: Tx, windowId: number | bigint): Promise<Window | null> =>
    windowOrNull(await tx.get(WINDOW, { window_id: windowId })),

  current: async (tx: Tx, planId: number | bigint): Promise<Window | null> =>
    windowOrNull(await tx.get(CURRENT, { plan_id: planId })),

  /** Stores a window's ledger and, while it is its plan's current one, what the schedule may still fire. */
  async write(tx: Tx, window: Window): Promise<void> {
    const amounts = amountParams(window)
    if (window.closed) {
      await tx.run(WRITE_CLOSED, { ...amounts, ...closingParams(window.closed) })
      return
    }
    const { planId, windowId } = window
    await Promise.all([
      tx.run(WRITE_OPEN, amounts),
      tx.run(REFUND, { fireable: unreserved(window), plan_id: planId, window_id: windowId }),
    ])
  },

  /** The first slot from `slot` on that has money left, as a window to open: nearly always that very slot. */
  async freeSlot(tx: Tx, planId: number, slot: Opening, floor: Usd): Promise<Opening> {
    for (let next = slot; ; next = slotAfter(next)) {
      const use = await tx.get(SLOT, { plan_id: planId, start: next.start, end: next.end })
      if (!use) throw new Error('a sum has no row')
      const usedStart = instantOrNull(use.used)
      const found = openSlot(next, { claimed: use.claimed as Usd, usedStart }, floor)
      if (found) return found
    }
  },

  /** A number for a window to open: asked for together with other things, it costs no extra wait. */
  nextId: async (tx: Tx): Promise<number> => Number((await tx.get(NEXT_ID))?.window_id),

  /** Both of its statements are sent at once: what follows them need not wait for their answers. */
  async open(tx: Tx, window: NewWindow): Promise<void> {
    const { planId, windowId, opening, minTranche } = window
    const row = { window_id: windowId, ...openingParams(planId, opening) }
    const schedule = freshSchedule(opened(opening, { planId, windowId }), minTranche)
    await Promise.all([tx.run(OPEN, row), tx.run(PUT, scheduleParams(schedule))])
  },

  async closeCurrent(tx: Tx, planId: number, reason: CloseReason, now: Instant): Promise<void> {
    await Promise.all([closeWindow(tx, planId, reason, now), tx.run(DROP_SCHEDULE, { plan_id: planId })])
  },

  /**
   * Closes the current window and opens another. The schedule's row is updated in place, never deleted and inserted: a
   * transaction that waits for the row then gets the new version.
   */
  async replaceCurrent(
    tx: Tx,
    closing: { reason: CloseReason; now: Instant },
    next: NewWindow,
  ): Promise<void> {
    await closeWindow(tx, next.planId, closing.reason, closing.now)
    await ledger.open(tx, next)
  },

  /** Puts schedules into the due set or takes them out, by what their plans and partners now are. */
  async wake(tx: Tx, planIds: readonly number[]): Promise<void> {
    await tx.run(WAKE, { plan_ids: planIds })
  },
}
