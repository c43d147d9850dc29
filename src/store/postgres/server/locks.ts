// The advisory locks of a database, and the order in which they and rows are locked, so that no two transactions wait
// for each other: all -> tenants, ascending -> pass -> poll -> a tenant's row, for its webhook -> partner -> user ->
// plans -> schedules -> windows -> executions, each by ascending ids -> what is added -> the audit log. Rows are locked
// `for no key update`.

import type { Pool } from 'pg'
import { Problem } from '../../../core/problem.ts'
import { type Asked, firstColumn } from './session.ts'

/** The first number of an advisory lock; the second is the tenant for a lock of one tenant, else 0. */
export const LOCK = {
  /** Held shared by every write, and exclusively to close a month for all. */
  all: 1,
  /** Of one tenant: held shared by its writes, exclusively by work that waits until the last of them is done. */
  tenant: 2,
  /** Held by the process that runs a pass, by its session. */
  pass: 3,
  /** Of one tenant: polls take turns. */
  poll: 5,
  /** Of one tenant: an advance of its sandbox, held by a session. */
  advance: 6,
  /** An import of prices, held by its session. */
  import: 7,
  migrate: 8,
  /** To number an adjustment. */
  numbering: 9,
  /** To add to the audit log; held until the end of the transaction. */
  audit: 10,
  /** Held by a session: shared to copy from here; exclusively to copy to here, or to take it back. */
  copy: 11,
  /** Held shared by every session of a process that has the database open, exclusively to put another in its place. */
  use: 12,
} as const

// Whether a database is in use. Each session of a process that has it open holds a shared lock, and one session stays
// open even without calls. Replacing the database takes the lock exclusively.

/** Must be called for each new session, before it reads anything. Waits while the database is being replaced. */
export async function holdInUse(client: Asked): Promise<void> {
  await client.query(`select pg_advisory_lock_shared(${LOCK.use}, 0)`)
}

/** The pause between two tries. */
const RETAKE_MS = 250

/** Makes a process that lost all its sessions, as when its server restarts, open a new one even if nobody calls. */
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
export async function takeFromUsers(client: Asked, server: string): Promise<void> {
  const until = performance.now() + ENDING_MAX_MS
  for (;;) {
    // It does not wait for the lock: that would keep out new sessions of the processes that hold it.
    const [isFree] = await firstColumn<boolean>(client, `select pg_try_advisory_xact_lock(${LOCK.use}, 0)`)
    if (isFree) return
    if (performance.now() > until) throw inUse(server, await usersOf(client))
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
  }
}

/** The most users of a database that a message names. */
const USERS_NAMED = 5

const usersOf = (client: Asked): Promise<string[]> =>
  firstColumn(
    client,
    `select distinct on (a.pid) format('%s (%s, from %s, process %s of the server)',
       coalesce(nullif(a.application_name, ''), 'a program'), a.usename,
       coalesce(host(a.client_addr), 'this machine'), a.pid)
     from pg_locks l join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'advisory' and l.granted and l.classid = ${LOCK.use} and l.objid = 0
       and l.database = (select oid from pg_database where datname = current_database()) and a.pid <> pg_backend_pid()
     order by a.pid`,
  )

function inUse(server: string, users: readonly string[]): Problem {
  const more = users.length - USERS_NAMED
  const named = [...users.slice(0, USERS_NAMED), ...(more > 0 ? [`${more} more`] : [])].join(', ')
  const who = users.length === 0 ? 'other processes' : named
  return new Problem('database_in_use', `${server} is in use by ${who}: stop serve and tick first.`)
}
