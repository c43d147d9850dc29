// Passes on a server: how a process takes its turn, also from one that hangs, and which plans are due; and how other
// jobs are limited to one process. The pass itself is shared (../shared/passes.ts, ../shared/pages.ts).

import { MINUTE_MS } from '../../core/time.ts'
import { joined, type OwnPasses, type PlanIds } from '../shared/passes.ts'
import type { OwnImports } from '../shared/prices.ts'
import { ALL_SANDBOX_DUE, type OwnSandboxes } from '../shared/sandboxes.ts'
import { query } from '../statement.ts'
import type { DueRanges } from '../store.ts'
import type { Base } from '../transaction.ts'
import { createFollowing } from './accounts.ts'
import { type Connection, createSessionLocks } from './server/connection.ts'
import { isOutage } from './server/failures.ts'
import { LOCK } from './server/locks.ts'

/** The plans of one transaction: enough to spread the cost of a commit, few enough that nobody waits long for a row. */
const PAGE_PLANS = 250

export const ownPasses = (connection: Connection, base: Base): OwnPasses => ({
  takeTurn: () => takeTurn(connection),
  listDue: (due) => listDue(base, due),
  pages: { next: async (max) => Math.min(max, PAGE_PLANS), note: () => {} },
  followPartners: createFollowing(base).finishLeft,
  isOutage,
})

export function ownSandboxes(connection: Connection, { write }: Base): OwnSandboxes {
  const take = createSessionLocks(connection, LOCK.advance)
  return {
    takeAdvance: async (tenantId) => (await take(tenantId))?.release ?? null,
    wipe: write,
    alsoWiped: [],
  }
}

export function ownImports(connection: Connection, { look }: Base): OwnImports {
  const take = createSessionLocks(connection, LOCK.import)
  // Outside the gate of months: no write waits for the end of an import.
  return { begin: async () => (await take())?.release ?? null, stage: look }
}

// The turn: a session's lock, which ends with its process. A process that hangs, or is stopped, keeps it. Each page
// begins with a statement in that session, so the server knows when the last one was; and a process whose session was
// ended makes no further page.

/** A page takes far less. A statement that lists due plans is cancelled after this time. */
const HANGS_AFTER_MS = 10 * MINUTE_MS
/** How long to wait for the end of a session. */
const ENDING_MAX_MS = 5_000

const END_HANGING = query<{ ended: boolean }>(
  `select pg_terminate_backend(l.pid, ${ENDING_MAX_MS}) as ended
   from pg_locks l join pg_stat_activity a on a.pid = l.pid
   where l.locktype = 'advisory' and l.granted and l.classid = ${LOCK.pass} and l.objid = 0
     and l.database = (select oid from pg_database where datname = current_database())
     and a.state_change < clock_timestamp() - :ms::bigint * interval '1 millisecond'`,
)

/** Null while another process runs a pass, unless it has been at its page for too long and loses its turn. */
export async function takeTurn(
  connection: Connection,
  hangsAfterMs = HANGS_AFTER_MS,
): ReturnType<OwnPasses['takeTurn']> {
  const take = createSessionLocks(connection, LOCK.pass)
  let lock = await take()
  if (!lock) {
    const ended = await connection.look((tx) => tx.all(END_HANGING, { ms: hangsAfterMs }))
    if (ended.some((one) => one.ended)) lock = await take()
  }
  return lock && { keep: lock.touch, end: lock.release }
}

// Which plans a pass must look at: four walks along four indexes, which cost only what they find. As a single
// condition, they would read all plans.

const AWAKE = 'select plan_id from schedules where awake = 1 and'
const DUE = `
  ${AWAKE} next_run_at <= :now
  union ${AWAKE} fireable >= floor and window_start <= :now and window_end <= :now::bigint + :lead::bigint
  union ${AWAKE} clock_at <= :now and :price::bigint is null
  union ${AWAKE} limit_price >= :price
  union ${ALL_SANDBOX_DUE}`

// Planned for the actual parameters and along the indexes: a generic plan would read the whole table, and so would one
// that takes every tenant for a sandbox. Without workers, whose start takes longer than most lists. Sorted in memory.
const PLAN_ANEW = query(
  `select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true),
     set_config('max_parallel_workers_per_gather', '0', true), set_config('work_mem', '64MB', true)`,
)
// By tenant, so that a page concerns few of them. As texts of many ids: a row for each would take ten times the memory.
const LIST = query<{ plan_ids: string }>(
  `select string_agg(plan_id::text, ',' order by at) as plan_ids
   from (select plan_id, row_number() over (order by tenant_id, plan_id) as at
         from (${DUE}) due join plans using (plan_id)) listed
   group by at / 10000 order by at / 10000`,
)

async function listDue({ read }: Base, { now, livePrice, leadMs }: DueRanges): Promise<PlanIds> {
  const [, rows] = await read(
    (tx) => tx.together(tx.run(PLAN_ANEW), tx.all(LIST, { now, price: livePrice, lead: leadMs })),
    { reads: 'large' },
  )
  return joined(rows.map(({ plan_ids }) => Float64Array.from(plan_ids.split(','), Number)))
}
