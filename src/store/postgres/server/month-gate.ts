// The gate of months. Every write takes the lock of all and those of its tenants, shared, and only in a later statement
// reads its clock, which is never below what has been reported. It holds the locks until its commit. Reporting a month
// takes a lock exclusively. So each write has either committed by then, and is seen, or has not read its clock yet, and
// will read a time past the end of what is reported. Taking the lock and reading the clock in one statement would be
// wrong: its snapshot would be older than its wait. The keys of calls are read together with the clock: ending a key
// waits for its tenant's writes, and later ones see that it has ended
// (docs/decisions/commits.md#a-write-checks-its-key).

import type { Frozen } from '../../../core/frozen.ts'
import { admit } from '../../../core/key.ts'
import type { PartnerStatus } from '../../../core/partner.ts'
import type { Instant } from '../../../core/time.ts'
import { refuseFrozen } from '../../frozen.ts'
import { shifted } from '../../shared/sandboxes.ts'
import { type Query, query } from '../../statement.ts'
import type { Scope, Times } from '../../transaction.ts'
import { HISTORY_SQL, type Mark } from './commit.ts'
import { LOCK } from './locks.ts'
import { type Pipeline, PRESENT_SQL, SCHEMA_SQL, type SchemaState } from './pipeline.ts'
import { FREEZE_SQL, type FreezeState, frozenForWrite, NOTE_STANDBY } from './timeline.ts'

export type Entered = { times: Times; frozen: Frozen | null; mark: Mark }

/**
 * Takes the locks of a scope, then reads the clock. `found` gets the recorded migrations, and may throw. Throws
 * OtherServer.
 */
export async function enter(
  tx: Pipeline,
  { tenants = [], alone, key, waitsMs, acts }: Scope,
  { clock, found }: { clock: Instant | null; found: (state: SchemaState) => void },
): Promise<Entered> {
  const ids = [...new Set(tenants)].sort((a, b) => a - b)
  if (waitsMs !== undefined) tx.send(`set local lock_timeout = ${waitsMs}`).catch(() => {})
  // A failure here makes the reading of the clock fail.
  tx.run(alone === 'all' ? ALL_ALONE : ALL).catch(() => {})
  for (const tenant of ids) tx.run(alone === 'tenants' ? TENANT_ALONE : TENANT, { tenant }).catch(() => {})
  const row = await tx.get(TIMES, { clock, tenants: ids, key: key ?? null })
  if (!row) throw new Error('the gate returned no time')
  found(row)
  const real = Number(row.real) as Instant
  const shifts = new Map(row.shifts.map((shift) => [shift.tenant_id, shift]))
  const frozen = frozenForWrite(row)
  if (row.has_new_standby) tx.run(NOTE_STANDBY).catch(() => {})
  const times: Times = { real, of: (tenantId) => shifted(shifts.get(tenantId), real) }
  const { life } = row
  if (key !== undefined)
    admit(
      life && {
        key: { expiresAt: life.expires_at, revokedAt: life.revoked_at },
        partnerStatus: life.status,
        now: real,
      },
    )
  refuseFrozen(frozen, acts)
  const { xid, timeline, memory } = row
  return { times, frozen, mark: { xid, timeline, memory } }
}

const lock = (how: string, which: number, id: string): Query<unknown> =>
  query(`select pg_advisory_xact_lock${how}(${which}, ${id})`)
const ALL = lock('_shared', LOCK.all, '0')
const ALL_ALONE = lock('', LOCK.all, '0')
const TENANT = lock('_shared', LOCK.tenant, ':tenant::int')
const TENANT_ALONE = lock('', LOCK.tenant, ':tenant::int')

type Shift = { tenant_id: number; offset_ms: number; reported_until: number }
type Life = { expires_at: Instant | null; revoked_at: Instant | null; status: PartnerStatus }
// One key and no join: with a list of keys and joins the whole statement took twice as long.
const LIFE_SQL = `(
  select json_build_object('expires_at', k.expires_at, 'revoked_at', k.revoked_at, 'status', (
    select r.status from partners r
    where r.partner_slug = (select t.partner_slug from tenants t where t.tenant_id = k.tenant_id)))
  from api_keys k where k.key_id = :key::text) as life`
type GateRow = Mark & SchemaState & FreezeState & { real: bigint; shifts: Shift[]; life: Life | null }
const TIMES: Query<GateRow> = query(
  `select ${PRESENT_SQL} as real, pg_current_xact_id()::text as xid,
     ${HISTORY_SQL}, ${SCHEMA_SQL}, ${FREEZE_SQL},
     coalesce((select json_agg(json_build_object('tenant_id', tenant_id, 'offset_ms', offset_ms,
       'reported_until', reported_until)) from sandboxes where tenant_id = any(:tenants::bigint[])), '[]') as shifts,
     ${LIFE_SQL}`,
)
