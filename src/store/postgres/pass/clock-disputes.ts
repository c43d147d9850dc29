// The single row that says the clock is in doubt, so that every process knows what one pass has found out.

import type { Dispute } from '../../../core/clock-dispute.ts'
import type { ClockStore } from '../../clock-disputes.ts'
import { type DisputeRow, disputeOf } from '../../rows/clock-dispute.ts'
import type { Connection } from '../server/connection.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'

const STANDING = query<DisputeRow>('select * from clock_disputes')
// The table is locked, because there may be no row to lock, and this hardly ever happens.
const LOCK_TABLE = query('lock table clock_disputes in share row exclusive mode')
const PUT = query(
  `insert into clock_disputes (one, clock_at, witness_at, source) values (1, :clock_at, :witness_at, :source)
   on conflict (one) do update set clock_at = excluded.clock_at, witness_at = excluded.witness_at,
     source = excluded.source`,
)
const CLEAR = query('delete from clock_disputes')

/** The dispute that stands, for the transactions of other files. */
export async function standingDispute(tx: Tx): Promise<Dispute | null> {
  const row = await tx.get(STANDING)
  return row ? disputeOf(row) : null
}

async function put(tx: Tx, dispute: Dispute | null): Promise<void> {
  if (dispute === null) await tx.run(CLEAR)
  else {
    const { source, at } = dispute.witness
    await tx.run(PUT, { clock_at: dispute.clockAt, witness_at: at, source })
  }
}

export function createClockStore({ clock, read, write }: Connection): ClockStore {
  const readClock: ClockStore['readClock'] = () =>
    read(async (tx) => {
      const [now, standing] = await Promise.all([clock.present(tx), standingDispute(tx)])
      return { now, standing }
    })

  return {
    async judgeClock(decide) {
      // Usually there is nothing to write, and then a pass does not pay for a commit.
      const { now, standing } = await readClock()
      if (standing === null && decide(now, standing) === null) return null
      return write(async (tx) => {
        const [{ real }, , standing] = await Promise.all([tx.times, tx.run(LOCK_TABLE), standingDispute(tx)])
        const dispute = decide(real, standing)
        await put(tx, dispute)
        return dispute
      })
    },

    readClock,
  }
}
