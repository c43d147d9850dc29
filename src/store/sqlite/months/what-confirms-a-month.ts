// What confirms that a month is over: how far time has come according to what was recorded, whatever this process's
// clock shows. A report alone closes no month.

import { type Instant, later } from '../../../core/instant.ts'
import { NEWEST_CHANGE, NEWEST_FINISHED_PASS } from '../../common/months/close-months-sql.ts'
import { instantOrNull } from '../../rows/instant.ts'
import type { Database } from '../file/connection.ts'
import { createDisputes } from '../pass/clock-disputes.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'

const NEVER = 0 as Instant

export function createReached(db: Database, time: TenantTime) {
  const disputes = createDisputes(db)
  const sql = {
    pass: db.prepare<[], bigint>(NEWEST_FINISHED_PASS.text).pluck(),
    audit: db.prepare<[], bigint>(NEWEST_CHANGE.text).pluck(),
  }
  const at = (value: bigint | undefined): Instant => instantOrNull(value ?? null) ?? NEVER

  return {
    /**
     * The instant of the newest pass, trade, adjustment or change by an operator, in the time of a sandbox or the real
     * one; nothing counts while the clock is in doubt.
     */
    reached(sandbox: number | null): Instant {
      if (disputes.standing() !== null) return NEVER
      const noted = later(at(sql.pass.get()), at(sql.audit.get()))
      if (sandbox !== null) return time.of(sandbox, noted)
      return later(noted, time.latestRecordedAt(null) ?? NEVER)
    },
  }
}
