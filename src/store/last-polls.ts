// When each tenant last polled. Most polls find nothing and write nothing, so their marks are gathered in memory and
// written once a minute, for all tenants in one commit, and when the database is closed.

import { type Instant, MINUTE_MS } from '../core/instant.ts'
import type { Tenant } from '../core/partner.ts'

/** The marks in the database are as old as this at most while polls go on. */
const WRITTEN_EVERY_MS = MINUTE_MS

/** A tenant, and when it polled last. */
export type Polled = [tenantId: number, at: Instant]

export type PollNotes = {
  /** Notes a poll at once, but apart from it: no poll waits for its mark, or fails because of it. */
  note: (tenant: Tenant, now: Instant) => void
  /** Writes what is noted, and resolves when that is done or has failed; null when nothing is noted. */
  flush: () => Promise<unknown> | null
}

export function createPollNotes(write: (polls: readonly Polled[]) => Promise<unknown>): PollNotes {
  const unwritten = new Map<number, Instant>()
  let writtenAt: Instant | null = null
  let underWay: Promise<unknown> | null = null

  function put(): void {
    if (unwritten.size === 0) return
    const polls = [...unwritten]
    unwritten.clear()
    // Marks that could not be written are noted again by the next polls, and a full disk has alarms of its own.
    const written = write(polls).catch(() => {})
    // Without their values, which would otherwise hold those of every write before.
    underWay = Promise.all([underWay, written]).then(() => {})
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
