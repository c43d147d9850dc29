// A month in slices: each is a short read, so that serve goes on answering and the write-ahead log can be emptied.

import { DAY_MS, earlier, type Instant, later, plus } from '../../../core/instant.ts'
import { instantOrNull } from '../../rows/instant.ts'
import type { Connection } from '../file/connection.ts'

/** What a slice holds at most, unless more of it has the same instant: a few milliseconds of reading. */
const TRADES_PER_SLICE = 2_000
const EXECUTIONS_PER_SLICE = 20_000

export type Slice = { tenant: number; start: Instant; end: Instant }

/** Cuts a tenant's period into slices, one after the other and without a gap. */
export function createSlices({ db, read }: Connection): (period: Slice) => AsyncGenerator<Slice> {
  const beyond = (table: string, at: string) =>
    db
      .prepare<object, bigint>(
        `select ${at} from ${table} where tenant_id = :tenant and ${at} >= :start and ${at} < :end
         order by ${at} limit 1 offset :many`,
      )
      .pluck()
  const trade = beyond('trades', 'recorded_at')
  const execution = beyond('executions', 'created_at')

  return async function* slices({ tenant, start, end }) {
    for (let from = start; from < end; ) {
      const day = { tenant, start: from, end: earlier(plus(from, DAY_MS), end) }
      const full = await read(() => [
        instantOrNull(trade.get({ ...day, many: TRADES_PER_SLICE }) ?? null),
        instantOrNull(execution.get({ ...day, many: EXECUTIONS_PER_SLICE }) ?? null),
      ])
      const until = full.reduce<Instant>((least, at) => (at === null ? least : earlier(least, at)), day.end)
      const slice = { ...day, end: later(until, plus(from, 1)) }
      yield slice
      from = slice.end
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}
