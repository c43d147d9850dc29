// When each tenant last polled. Most polls find nothing and write nothing, so what they leave comes together in memory
// and is written once a minute, for all tenants in one commit, and when the database is closed.

import { type Instant, MINUTE_MS } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { Connection } from '../file/connection.ts'

/** The marks in the file are as old as this at most while polls go on. */
const WRITTEN_EVERY_MS = MINUTE_MS

export type PollNotes = {
  /** Notes a poll, at once and beside it: no poll waits for the mark, and none fails for it. */
  note: (tenant: Tenant) => void
  /** Writes what is noted, and resolves when that is done, or cannot be; null when nothing is. */
  flush: () => Promise<unknown> | null
}

export function createPollNotes({ db, clock, write }: Connection): PollNotes {
  const insert = db.prepare(
    `insert into polls (tenant_id, polled_at) select value ->> 0, value ->> 1 from json_each(:polls) where true
     on conflict do update set polled_at = excluded.polled_at`,
  )
  const unwritten = new Map<number, Instant>()
  let writtenAt: Instant | null = null
  let underWay: Promise<unknown> | null = null

  function put(): void {
    if (unwritten.size === 0) return
    const polls = [...unwritten]
    unwritten.clear()
    // What could not be written is noted again by the next polls; the disk that is full has alarms of its own.
    const written = write(() => insert.run({ polls: JSON.stringify(polls) })).catch(() => {})
    underWay = Promise.all([underWay, written])
  }

  return {
    note({ tenantId }) {
      const now = clock()
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
