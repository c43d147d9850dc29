// Up to which execution none is missing any more. Ids ascend with time, but are not committed in order: a write reads
// the newest id behind the gate of months (../server/month-gate.ts), and assigns higher ones. So once every write that
// was behind the gate when an id was seen has ended, everything up to that id is there.

import type { ExecutionId } from '../../../core/execution-id.ts'
import { NEWEST_EXECUTION } from '../../common/health/count-new-executions.ts'
import type { Connection } from '../server/connection.ts'
import { LOCK } from '../server/locks.ts'
import { queryOf } from '../server/reader.ts'
import { query } from '../server/statement.ts'

/** A write takes milliseconds. This is how often to check whether the last one has ended, for half a second in all. */
const LOOKS_MAX = 20
const LOOK_AGAIN_MS = 25

const NEWEST = queryOf(NEWEST_EXECUTION)
/** Any user may see these, no matter whose transaction it is. */
const BEHIND_GATE = `select virtualtransaction as writer from pg_locks
  where locktype = 'advisory' and classid = ${LOCK.all} and objid = 0 and granted
    and database = (select oid from pg_database where datname = current_database())`
const WRITERS = query<{ writer: string }>(BEHIND_GATE)
const STILL = query<{ n: bigint }>(
  `select count(*) as n from (${BEHIND_GATE}) w where w.writer = any(:writers::text[])`,
)

/** Null when there is none; undefined when a write that may give lower ids takes too long. */
export async function settledExecution({ look }: Connection): Promise<ExecutionId | null | undefined> {
  const newest = (await look((tx) => tx.get(NEWEST)))?.newest ?? null
  // Asked afterwards: a write that was behind the gate then either still is, or has ended.
  const writers = (await look((tx) => tx.all(WRITERS))).map(({ writer }) => writer)
  for (let looks = 0; writers.length > 0; looks++) {
    if ((await look((tx) => tx.get(STILL, { writers })))?.n === 0n) break
    if (looks === LOOKS_MAX) return undefined
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
  }
  return newest
}
