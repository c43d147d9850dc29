// Whether a database is in use. Each session of a process that has it open holds a shared lock, and one session stays
// open even while nobody calls. Replacing the database takes the lock exclusively.

import type { ClientBase, Pool } from 'pg'
import { Problem } from '../../../core/problem.ts'
import { LOCK } from './locks.ts'

type Asking = Pick<ClientBase, 'query'>

/** To be called for each new session, before it looks at anything. Waits while the database is being replaced. */
export async function holdInUse(client: Asking): Promise<void> {
  await client.query(`select pg_advisory_lock_shared(${LOCK.use}, 0)`)
}

/** How long after one try there is another. */
const RETAKE_MS = 250

/**
 * Makes a process that lost all its sessions open a new one at once, even if nobody calls: its server may have
 * restarted.
 */
export function stayInUse(pool: Pool): void {
  let isRetaking = false

  async function retake(): Promise<void> {
    if (isRetaking) return
    isRetaking = true
    // Goes by the pool's count: the pool reports the end of some sessions twice.
    while (pool.totalCount === 0 && !pool.ending) {
      const client = await pool.connect().catch(() => null)
      client?.release()
      await new Promise((resolve) => setTimeout(resolve, RETAKE_MS).unref())
    }
    isRetaking = false
  }

  pool.on('remove', () => {
    if (pool.totalCount === 0) void retake()
  })
}

/** A process that has just ended has sessions for a moment longer. */
const ENDING_MAX_MS = 2_000
const LOOK_AGAIN_MS = 50

/** Held until the end of the transaction: meanwhile, nobody uses the database or begins to. Throws database_in_use. */
export async function takeFromUsers(client: Asking, server: string): Promise<void> {
  const until = performance.now() + ENDING_MAX_MS
  // It does not wait for the lock: that would keep out new sessions of the processes that hold it.
  while (!(await isFree(client))) {
    if (performance.now() > until) throw inUse(server)
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
  }
}

async function isFree(client: Asking): Promise<boolean> {
  const { rows } = await client.query(`select pg_try_advisory_xact_lock(${LOCK.use}, 0) as free`)
  return (rows[0] as { free: boolean }).free
}

const inUse = (server: string): Problem =>
  new Problem('database_in_use', `${server} is in use by other processes: stop serve and tick first.`)
