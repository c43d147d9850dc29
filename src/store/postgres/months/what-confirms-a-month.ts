// What confirms that a month is over: how far time has come according to what was recorded, whatever the clock shows. A
// report alone closes no month.

import { type Instant, later } from '../../../core/instant.ts'
import { NEWEST_CHANGE, NEWEST_FINISHED_PASS } from '../../common/months/close-months-sql.ts'
import { instantOrNull } from '../../rows/instant.ts'
import { latestRecordedAt, timeOf } from '../sandbox/tenant-time.ts'
import type { Tx } from '../server/pipeline.ts'
import { queryOf } from '../server/reader.ts'
import { query } from '../server/statement.ts'

const NEVER = 0 as Instant
const DISPUTED = query<{ one: bigint }>('select one from clock_disputes')
const PASS = queryOf(NEWEST_FINISHED_PASS)
const CHANGE = queryOf(NEWEST_CHANGE)

/**
 * The instant of the newest pass, trade, adjustment or change by an operator, in the time of a sandbox or the real one;
 * nothing counts while the clock is in doubt.
 */
export async function reached(tx: Tx, sandbox: number | null): Promise<Instant> {
  const [disputed, pass, change] = await Promise.all([tx.get(DISPUTED), tx.get(PASS), tx.get(CHANGE)])
  if (disputed) return NEVER
  const noted = later(at(pass), at(change))
  if (sandbox !== null) return timeOf(tx, sandbox, noted)
  return later(noted, (await latestRecordedAt(tx, null)) ?? NEVER)
}

const at = (row: { at: bigint } | undefined): Instant => instantOrNull(row?.at ?? null) ?? NEVER
