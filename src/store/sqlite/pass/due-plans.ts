// Which plans a pass must look at: four walks along four indexes, which cost only what they find.

import type { Instant } from '../../../core/instant.ts'
import type { DueRanges } from '../../passes.ts'
import type { Connection } from '../file/connection.ts'
import type { PlanIds } from './plan-ids.ts'

/** How many ids are read in one go, so that the event loop never waits long. */
const DUE_READ_MAX = 10_000
/** Below and above every instant and every price. */
const FIRST = -(2n ** 62n)
const LAST = 2n ** 62n

type DueRow = { at: bigint; plan_id: bigint }
/** From one value of a column to another, both included. */
type Walk = { from: bigint; until: bigint | number; now: Instant }

/** Lists the plans in each of the due ranges, read by read: in no order, and a plan once for each range it is in. */
export function createDuePlans(connection: Connection): (due: DueRanges) => Promise<PlanIds[]> {
  const ranges = prepare(connection)

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
      await new Promise((resolve) => setImmediate(resolve))
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

function prepare({ db }: Connection) {
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
