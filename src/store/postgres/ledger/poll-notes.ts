// When each tenant last polled. Most polls find nothing and write nothing, so what they leave comes together in memory
// and is written once a minute, for all tenants in one commit, and when the database is closed.

import { type Instant, MINUTE_MS } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { Connection } from '../server/connection.ts'
import { arraysOf, type Columns, rowsIn } from '../server/rows-in.ts'
import { query } from '../server/statement.ts'

/** The marks in the database are as old as this at most while polls go on. */
const WRITTEN_EVERY_MS = MINUTE_MS

const POLLED = { tenant_id: 'bigint', polled_at: 'bigint' } satisfies Columns
const PUT = query(
  `insert into polls (tenant_id, polled_at) select * from ${rowsIn(POLLED, 'r')} order by tenant_id
   on conflict (tenant_id) do update set polled_at = excluded.polled_at`,
)

export type PollNotes = {
  /** Notes a poll, at once and beside it: no poll waits for the mark, and none fails for it. */
  note: (tenant: Tenant, now: Instant) => void
  /** Writes what is noted, and resolves when that is done, or cannot be; null when nothing is. */
  flush: () => Promise<unknown> | null
}

export function createPollNotes({ write }: Connection): PollNotes {
  const unwritten = new Map<number, Instant>()
  let writtenAt: Instant | null = null
  let underWay: Promise<unknown> | null = null

  function put(): void {
    if (unwritten.size === 0) return
    const polls = [...unwritten].map(([tenant_id, polled_at]) => ({ tenant_id, polled_at }))
    unwritten.clear()
    // What could not be written is noted again by the next polls; the disk that is full has alarms of its own.
    const written = write((tx) => tx.run(PUT, arraysOf(POLLED, polls))).catch(() => {})
    underWay = Promise.all([underWay, written])
  }

  return {
    note({ tenantId }, now) {
      unwritten.set(tenantId, now)
      if (writtenAt !== null && Math.abs(now - writtenAt) < WRITTEN_EVERY_MS) return
      writtenAt = now
      put()
    },
    flush() {
      put()
      return underWay
    },
  }
}
