// The single row that says the clock is in doubt, so that every process knows what one pass has found out.

import type { Dispute } from '../../../core/clock-dispute.ts'
import type { ClockStore } from '../../clock-disputes.ts'
import { type DisputeRow, disputeOf } from '../../rows/clock-dispute.ts'
import type { Connection, Database } from '../file/connection.ts'

/** For the transactions of other files. */
export function createDisputes(db: Database) {
  const sql = {
    find: db.prepare<[], DisputeRow>('select * from clock_disputes'),
    put: db.prepare(
      `insert or replace into clock_disputes (one, clock_at, witness_at, source)
       values (1, :clock_at, :witness_at, :source)`,
    ),
    clear: db.prepare('delete from clock_disputes'),
  }
  return {
    standing(): Dispute | null {
      const row = sql.find.get()
      return row ? disputeOf(row) : null
    },

    put(dispute: Dispute | null): void {
      if (dispute === null) sql.clear.run()
      else {
        const { source, at } = dispute.witness
        sql.put.run({ clock_at: dispute.clockAt, witness_at: at, source })
      }
    },
  }
}

export function createClockStore({ db, present, read, write }: Connection): ClockStore {
  const disputes = createDisputes(db)
  return {
    async judgeClock(decide) {
      // Usually there is nothing to write, and then a pass does not pay for a commit.
      const quiet = await read(() => {
        const standing = disputes.standing()
        return standing === null && decide(present(), standing) === null
      })
      if (quiet) return null
      return write((now) => {
        const dispute = decide(now, disputes.standing())
        disputes.put(dispute)
        return dispute
      })
    },

    readClock: () => read(() => ({ now: present(), standing: disputes.standing() })),
  }
}
