// A month in slices: each is a short read, so that serve goes on answering and the write-ahead log can be emptied.

import { DAY_MS, earlier, type Instant, later, plus } from '../../../core/instant.ts'
import { instant } from '../../rows/instant.ts'
import { ask, breathe, type Reader, sql } from '../reader.ts'

/** How many rows a slice holds at most, unless more of them have the same instant: a few milliseconds of reading. */
const TRADES_PER_SLICE = 2_000
const EXECUTIONS_PER_SLICE = 20_000

export type Slice = { tenant: number; start: Instant; end: Instant }

const beyond = (table: string, at: string) =>
  sql<{ at: bigint }>(
    `select ${at} as at from ${table} where tenant_id = :tenant and ${at} >= :start and ${at} < :end
     order by ${at} limit 1 offset :many`,
  )
const TRADE_BEYOND = beyond('trades', 'recorded_at')
const EXECUTION_BEYOND = beyond('executions', 'created_at')

/** Cuts a tenant's period into slices, one after the other and without a gap. */
export async function* slicesOf(reader: Reader, { tenant, start, end }: Slice): AsyncGenerator<Slice> {
  for (let from = start; from < end; ) {
    const day = { tenant, start: from, end: earlier(plus(from, DAY_MS), end) }
    const full = await reader.together<[{ at: bigint }, { at: bigint }]>(
      ask(TRADE_BEYOND, { ...day, many: TRADES_PER_SLICE }),
      ask(EXECUTION_BEYOND, { ...day, many: EXECUTIONS_PER_SLICE }),
    )
    const until = full.flat().reduce<Instant>((least, { at }) => earlier(least, instant(at)), day.end)
    const slice = { ...day, end: later(until, plus(from, 1)) }
    yield slice
    from = slice.end
    await breathe()
  }
}
