// A poll: first looks without locks, because most find nothing; then takes its tenant's turn, and leases what is due.

import type { Execution } from '../../../core/execution.ts'
import type { Instant } from '../../../core/instant.ts'
import { writesLost } from '../../../core/lost-writes.ts'
import type { Caller, Tenant } from '../../../core/partner.ts'
import { sealedProblem } from '../../copying/seal-words.ts'
import { isIntact } from '../../digests.ts'
import type { PollNotes } from '../../last-polls.ts'
import { executionOf } from '../../rows/execution.ts'
import { instant } from '../../rows/instant.ts'
import { callOf } from '../../transaction.ts'
import type { Connection, WriteTx } from '../server/connection.ts'
import { LOCK } from '../server/locks.ts'
import { arraysOf, type Columns, rowsIn } from '../server/rows-in.ts'
import { query } from '../server/statement.ts'
import type { createStops } from './disable-user.ts'
import { dueList } from './due-executions.ts'

type DuePage = { executions: Execution[]; remaining: number }
type Handing = { limit: number; deliver: (seen: Execution, now: Instant) => Execution }

const TURN = query(`select pg_advisory_xact_lock(${LOCK.poll}, :tenant::int)`)

const LEASED = {
  execution_id: 'text',
  status: 'text',
  delivered_count: 'bigint',
  lease_expires_at: 'bigint',
} satisfies Columns
const LEASE = query(
  `update executions
   set status = r.status, delivered_count = r.delivered_count, lease_expires_at = r.lease_expires_at
   from ${rowsIn(LEASED, 'r')}
   where executions.execution_id = r.execution_id and +executions.tenant_id = :tenant`,
)
const leasedRow = (one: Execution) => ({
  execution_id: one.executionId,
  status: one.status,
  delivered_count: one.deliveredCount,
  lease_expires_at: one.leaseExpiresAt,
})

export function createPoll(
  connection: Connection,
  { stops, notes }: { stops: ReturnType<typeof createStops>; notes: PollNotes },
) {
  const { clock, look, write } = connection

  /** Leases the first `limit` of what is due, and counts the rest. Null when a user is just being disabled. */
  async function hand(tx: WriteTx, tenant: Tenant, { limit, deliver }: Handing): Promise<DuePage | null> {
    const { tenantId } = tenant
    const [times] = await Promise.all([tx.times, tx.run(TURN, { tenant: tenantId })])
    const now = times.of(tenantId)
    // Checked once the rows are locked: a disable that comes later finds them delivered, and cancels them.
    const [due, isStopping] = await Promise.all([
      dueList.first(tx, tenant, now, limit),
      stops.isAnyStopping(tx, tenant),
    ])
    if (isStopping) return null
    // Nobody buys on the word of a row that is damaged. The check names it, and it stays where it is.
    const sound = due.filter((row) => isIntact('executions', row))
    const executions = sound.map((row) => deliver(executionOf(row), now))
    const leased = { tenant: tenantId, ...arraysOf(LEASED, executions.map(leasedRow)) }
    if (executions.length > 0) tx.unwaited(tx.run(LEASE, leased))
    return { executions, remaining: (await dueList.count(tx, tenant, now)) - (due.length - sound.length) }
  }

  return async (tenant: Caller, handing: Handing): Promise<DuePage> => {
    for (;;) {
      const [seen, isStopping] = await look(
        (tx) => Promise.all([dueList.look(tx, tenant, clock.parameter()), stops.isAnyStopping(tx, tenant)]),
        callOf(tenant),
      )
      if (seen) notes.note(tenant, instant(seen.clock))
      // A poll that finds nothing would write nothing, and so would not learn of it.
      if (seen?.moved_to != null && seen.sealed_at !== null)
        throw sealedProblem({ at: instant(seen.sealed_at), movedTo: seen.moved_to })
      if (seen?.lost) throw writesLost()
      // Not one execution of a user who is being disabled is handed out: they are all cancelled first.
      if (isStopping) await stops.finishAll(tenant)
      else if (!seen?.due) return { executions: [], remaining: 0 }
      const page = await write((tx) => hand(tx, tenant, handing), callOf(tenant))
      if (page) return page
    }
  }
}
