// Passes on a server: how a process takes its turn, also from one that hangs, and which plans are due; and what else
// keeps one process at a time to a job. The pass itself is shared (../shared/passes.ts, ../shared/pages.ts).

import { MINUTE_MS } from '../../core/time.ts'
import type { OwnPasses, PlanIds } from '../shared/passes.ts'
import type { Staging } from '../shared/prices.ts'
import { ALL_SANDBOX_DUE, type OwnSandboxes } from '../shared/sandboxes.ts'
import { query } from '../statement.ts'
import type { DueRanges } from '../store.ts'
import { columnsToAdd } from '../tables.ts'
import type { Base } from '../transaction.ts'
import { createFollowing } from './accounts.ts'
import { type Connection, createSessionLocks } from './server/connection.ts'
import { isOutage } from './server/failures.ts'
import { LOCK } from './server/locks.ts'
import { arraysFor, arraysOf, namesOf, rowsIn } from './server/pipeline.ts'

/**
 * How many plans one transaction takes: enough to spread the cost of a commit, few enough that nobody waits long for a
 * row.
 */
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

// The turn: a session's lock, which ends with its process. A process that hangs, or is stopped, keeps it. Each page
// begins with a statement in that session, so the server knows when the last one was; and a process whose session was
// ended makes no further page.

/** A page takes far less; a statement that lists the plans that are due is cancelled after so long. */
const HANGS_AFTER_MS = 10 * MINUTE_MS
/** For how long the end of a session is waited for. */
const ENDING_MAX_MS = 5_000

const END_HANGING = query<{ ended: boolean }>(
  `select pg_terminate_backend(l.pid, ${ENDING_MAX_MS}) as ended
   from pg_locks l join pg_stat_activity a on a.pid = l.pid
   where l.locktype = 'advisory' and l.granted and l.classid = ${LOCK.pass} and l.objid = 0
     and l.database = (select oid from pg_database where datname = current_database())
     and a.state_change < clock_timestamp() - :ms::bigint * interval '1 millisecond'`,
)

/** Null while another process runs a pass, unless it has been at its page for too long: then it loses its turn. */
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

// Planned for the actual parameters: a generic plan would read the whole table. Sorted in memory.
const PLAN_ANEW = query(
  `select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('work_mem', '64MB', true)`,
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
  const lists = rows.map(({ plan_ids }) => plan_ids.split(','))
  const planIds = new Float64Array(lists.reduce((total, list) => total + list.length, 0))
  let end = 0
  for (const list of lists) {
    planIds.set(list.map(Number), end)
    end += list.length
  }
  return planIds
}

// How the rows of an import of prices are staged.

const IMPORTED = arraysFor('price_imports', columnsToAdd('price_imports'))
const STAGE = query(
  `insert into price_imports (${namesOf(IMPORTED)}) select n.* from ${rowsIn(IMPORTED, 'n')} on conflict do nothing`,
)
const CLEAR = query('delete from price_imports')

/** Without the gate of months, so that no month waits for the end of an import. */
export function createStaging(connection: Connection): Staging {
  const take = createSessionLocks(connection, LOCK.import)
  return {
    begin: async () => (await take())?.release ?? null,
    add: (batch) => connection.look((tx) => tx.run(STAGE, arraysOf(IMPORTED, batch))),
    clear: () => connection.look((tx) => tx.run(CLEAR)),
  }
}
