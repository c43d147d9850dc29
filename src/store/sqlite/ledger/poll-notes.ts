// When each tenant last polled. Most polls find nothing and write nothing, so what they leave comes together in memory
// and is written once a minute, for all tenants in one commit.

import { type Instant, MINUTE_MS } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { Connection } from '../file/connection.ts'

/** The marks in the file are as old as this at most while polls go on. */
const WRITTEN_EVERY_MS = MINUTE_MS

/** Notes a poll, at once and beside it: no poll waits for the mark, and none fails for it. */
export function createPollNotes({ db, clock, write }: Connection): (tenant: Tenant) => void {
  const put = db.prepare(
    `insert into polls (tenant_id, polled_at) select value ->> 0, value ->> 1 from json_each(:polls) where true
     on conflict do update set polled_at = excluded.polled_at`,
  )
  const unwritten = new Map<number, Instant>()
  let writtenAt: Instant | null = null

  return ({ tenantId }) => {
    const now = clock()
    unwritten.set(tenantId, now)
    if (writtenAt !== null && Math.abs(now - writtenAt) < WRITTEN_EVERY_MS) return
    writtenAt = now
    const polls = [...unwritten]
    unwritten.clear()
    // What could not be written is noted again by the next polls; the disk that is full has alarms of its own.
    write(() => put.run({ polls: JSON.stringify(polls) })).catch(() => {})
  }
}
