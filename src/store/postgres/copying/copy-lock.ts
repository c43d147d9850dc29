// Which copies may run at the same time: many from a database, one to it. A seal may be taken off only while no copy is
// running. Otherwise, a copy that has no name yet could get it afterwards, and two databases would take writes.

import type { ClientBase } from 'pg'
import { Problem } from '../../../core/problem.ts'
import { LOCK } from '../server/locks.ts'

/** A lock that the session holds. Throws database_in_use. */
export async function takeCopyLock(
  client: Pick<ClientBase, 'query'>,
  { server, alone }: { server: string; alone: boolean },
): Promise<void> {
  const { rows } = await client.query(
    `select pg_try_advisory_lock${alone ? '' : '_shared'}(${LOCK.copy}, 0) as taken`,
  )
  if ((rows[0] as { taken: boolean }).taken) return
  throw new Problem('database_in_use', `A copy from or to ${server} is running: wait until it ends.`)
}
