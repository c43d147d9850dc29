// What disputes the clock: the row and the value.

import type { Dispute } from '../../core/clock-dispute.ts'
import { instant } from './instant.ts'

export type DisputeRow = { clock_at: bigint; witness_at: bigint; source: string }
export const disputeOf = (row: DisputeRow): Dispute => ({
  clockAt: instant(row.clock_at),
  witness: { source: row.source, at: instant(row.witness_at) },
})
