// Closes windows that are over and opens their successors, many in a few statements: thousands end at the same
// midnight.

import type { Instant } from '../../../core/instant.ts'
import { leastInstruction } from '../../../core/least-instruction.ts'
import type { Usd } from '../../../core/money.ts'
import { type OnGrid, openSlot, slotAfter } from '../../../core/next-window.ts'
import { freshSchedule, type Schedule } from '../../../core/schedule-state.ts'
import { close, type Opening, opened, type Window } from '../../../core/window.ts'
import type { PlanDecisions } from '../../passes.ts'
import { instantOrNull } from '../../rows/instant.ts'
import { amountParams, closingParams, openingParams } from '../../rows/window.ts'
import { slotUse } from '../../sql/windows-and-schedules.ts'
import type { Tx } from '../server/pipeline.ts'
import { arraysOf, namesOf, rowsIn } from '../server/rows-in.ts'
import { query } from '../server/statement.ts'

/** A plan's current window, its terms, and the time of its tenant. */
export type Rollable = {
  window: Window
  terms: Pick<OnGrid, 'frequency' | 'amount'>
  minTranche: Usd
  now: Instant
}

/** A window that is over, and its successor with the schedule for it. Nothing is written yet. */
export type Rolled = { over: Window; window: Window; schedule: Schedule }

const SLOTS = { plan_id: 'bigint', slot_start: 'bigint', slot_end: 'bigint' } as const
const SLOT_USES = query<{ plan_id: bigint; claimed: bigint; used: bigint | null }>(
  `select n.plan_id, u.* from ${rowsIn(SLOTS, 'n')}
   cross join lateral (${slotUse({ planId: 'n.plan_id', start: 'n.slot_start', end: 'n.slot_end' })}) u`,
)
const WINDOW_IDS = query<{ window_id: bigint }>(
  `select nextval(pg_get_serial_sequence('windows', 'window_id')) as window_id from generate_series(1, :count::int)`,
)
const CLOSED = { window_id: 'bigint', released: 'bigint', closed_at: 'bigint', close_reason: 'text' } as const
const CLOSE = query(
  `update windows w set released = n.released, closed_at = n.closed_at, close_reason = n.close_reason
   from ${rowsIn(CLOSED, 'n')} where w.window_id = n.window_id`,
)
const OPENED = {
  window_id: 'bigint',
  plan_id: 'bigint',
  window_start: 'bigint',
  window_end: 'bigint',
  budget: 'bigint',
  reserved: 'bigint',
  digest: 'bigint',
} as const
const OPEN = query(
  `insert into windows (${namesOf(OPENED)}) select ${namesOf(OPENED)} from ${rowsIn(OPENED, 'n')}`,
)

/** What follows the windows that are over, by their plans. */
export async function rollWindows(
  tx: Tx,
  seen: readonly Rollable[],
  roll: PlanDecisions['roll'],
): Promise<Map<number, Rolled>> {
  const over = seen.flatMap((one) => {
    const { window, terms, now } = one
    const slot = now < window.end ? null : roll({ start: window.start, end: window.end, ...terms }, now)
    return slot ? [{ ...one, slot }] : []
  })
  if (over.length === 0) return new Map()
  const [ids, openings] = await Promise.all([tx.all(WINDOW_IDS, { count: over.length }), freeSlots(tx, over)])
  return new Map(
    over.map(({ window, minTranche, now }, i) => {
      const { planId } = window
      const opening = openings.get(planId)
      const id = ids[i]
      if (!opening || !id) throw new Error(`no window follows that of plan ${planId}`)
      const next = opened(opening, { planId, windowId: Number(id.window_id) })
      const closed = close(window, now, 'ended')
      return [planId, { over: closed, window: next, schedule: freshSchedule(next, minTranche) }]
    }),
  )
}

/** The first slot of each plan that has money left: nearly always the one asked for. */
async function freeSlots(
  tx: Tx,
  over: readonly (Rollable & { slot: Opening })[],
): Promise<Map<number, Opening>> {
  const found = new Map<number, Opening>()
  let wanted = over.map(({ window, terms, minTranche, slot }) => ({
    planId: window.planId,
    slot,
    floor: leastInstruction(minTranche, terms.amount),
  }))
  while (wanted.length > 0) {
    const asked = wanted.map(({ planId, slot }) => ({
      plan_id: planId,
      slot_start: slot.start,
      slot_end: slot.end,
    }))
    const uses = new Map(
      (await tx.all(SLOT_USES, arraysOf(SLOTS, asked))).map((use) => [Number(use.plan_id), use]),
    )
    const full: typeof wanted = []
    for (const { planId, slot, floor } of wanted) {
      const use = uses.get(planId)
      if (!use) throw new Error(`nobody knows what plan ${planId} has used`)
      const free = openSlot(slot, { claimed: use.claimed as Usd, usedStart: instantOrNull(use.used) }, floor)
      if (free) found.set(planId, free)
      else full.push({ planId, slot: slotAfter(slot), floor })
    }
    wanted = full
  }
  return found
}

/** Stores windows that are over and those that follow them, as they are by now. */
export const writeRolled = (tx: Tx, over: readonly Window[], next: readonly Window[]): Promise<unknown> =>
  Promise.all([
    tx.run(
      CLOSE,
      arraysOf(
        CLOSED,
        over.map((window) => {
          if (!window.closed) throw new Error(`window ${window.windowId} is not closed`)
          return { ...amountParams(window), ...closingParams(window.closed) }
        }),
      ),
    ),
    tx.run(
      OPEN,
      arraysOf(
        OPENED,
        next.map((window) => ({
          ...amountParams(window),
          ...openingParams(window.planId, window),
        })),
      ),
    ),
  ])
