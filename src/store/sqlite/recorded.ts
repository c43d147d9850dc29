import type { Instant } from '../../core/instant.ts'
import { instantOrNull } from '../rows.ts'
import type { Database } from './connection.ts'

/** When the latest trade or adjustment was recorded: nothing that is billed is dated before it. */
export function latestRecorded(db: Database): () => Instant | null {
  const latest = db
    .prepare<[], bigint | null>(
      `select max(at) from (select max(recorded_at) as at from trades
         union all select max(recorded_at) from adjustments)`,
    )
    .pluck()
  return () => instantOrNull(latest.get() ?? null)
}
