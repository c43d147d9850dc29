// A database that stands still: the row that says that it was put back from a copy, and how it goes on, whichever of
// the two reasons in src/core/standstill.ts it had. The rows of lost writes, which only a server can have, are in
// postgres/monitoring.ts.

import { type Restored, standsStill } from '../core/standstill.ts'
import type { Instant } from '../core/time.ts'
import { addAudit } from './shared/audit.ts'
import { instant, query } from './statement.ts'
import type { AuditEntry, Resumed } from './store.ts'
import type { NewRow, RowOf } from './tables.ts'
import type { Steps, Tx } from './transaction.ts'

export type StandstillRow = Omit<RowOf<'standstill'>, 'one'>

export const SELECT_STANDSTILL = 'select at, copy, replaced from standstill'
export const STANDSTILL = query<StandstillRow>(SELECT_STANDSTILL)
/** The same where it is in force: one that is sealed as well refuses all writes anyway, and says where it moved to. */
export const STANDSTILL_IN_FORCE = `${SELECT_STANDSTILL} where not exists (select 1 from sealed)`
const END = query('delete from standstill')

export const restoredIn = (row: StandstillRow | undefined): Restored | null =>
  row ? { at: instant(row.at), copy: row.copy, replaced: JSON.parse(row.replaced) as string[] } : null

export const standstillParams = ({ at, copy, replaced }: Restored): NewRow<'standstill'> => ({
  one: 1,
  at,
  copy,
  replaced: JSON.stringify(replaced),
})

/** Throws database_restored. */
export function refuseStandstill(row: StandstillRow | undefined): void {
  const restored = restoredIn(row)
  if (restored) throw standsStill(restored)
}

export function* readRestored(tx: Tx): Steps<Restored | null> {
  return restoredIn(yield* tx.get(STANDSTILL))
}

/** Lets it go on, with an entry in the audit log; does nothing, and notes nothing, when nothing stands still. */
export function* goOn(
  tx: Tx,
  entry: AuditEntry,
  { lost, now }: { lost: Resumed['lost']; now: Instant },
): Steps<Resumed> {
  const restored = yield* readRestored(tx)
  if (!restored && !lost) return { restored, lost }
  const detail = {
    ...entry.detail,
    ...(restored && { restored_at: restored.at, copy: restored.copy, replaced: restored.replaced }),
    ...(lost && { writes: lost.writes, tenants: lost.tenants, server: lost.server }),
  }
  yield* tx.run(END)
  yield* addAudit(tx, { ...entry, detail }, now)
  return { restored, lost }
}
