// Wiping a test environment.

import type { Instant } from '../../../core/instant.ts'
import { notToWipe } from '../../../core/sandbox-limits.ts'
import { type Wiped, wipedOf } from '../../sandboxes.ts'
import { KEEP_USED_STARTS } from '../../sql/sandboxes.ts'
import { WIPED as ROWS } from '../../sql/tables-a-reset-empties.ts'
import type { Connection } from '../file/connection.ts'
import { whenFree } from '../file/wait-for-lock.ts'

/** The counts that are kept for a tenant go as well. */
export const WIPED: typeof ROWS = [
  ...ROWS,
  ['outcomes', 'tenant_id = :tenant'],
  ['open_counts', 'tenant_id = :tenant'],
]

export type Wipe = (tenantId: number, note: (now: Instant) => void) => Promise<Wiped>

export function createWipe({ db, clock, lookAtName, lookAtSchema }: Connection): Wipe {
  const sql = {
    begin: db.prepare('begin immediate'),
    commit: db.prepare('commit'),
    rollback: db.prepare('rollback'),
    mark: db.prepare('update sandboxes set resetting = :resetting where tenant_id = :tenant'),
    keep: KEEP_USED_STARTS.map((statement) => db.prepare(statement)),
    wipe: WIPED.map(([table, rows]) => ({
      table,
      statement: db.prepare(`delete from ${table} where ${rows}`),
    })),
  }

  function wipe(tenant: number, note: (now: Instant) => void): Wiped {
    if (sql.mark.run({ tenant, resetting: 1 }).changes !== 1) {
      throw notToWipe()
    }
    // No purchase in it is dated later.
    const real = clock()
    for (const statement of sql.keep) statement.run({ tenant, real })
    const gone = new Map(
      sql.wipe.map(({ table, statement }) => [table, statement.run({ tenant }).changes] as const),
    )
    sql.mark.run({ tenant, resetting: 0 })
    note(clock())
    return wipedOf((table) => gone.get(table) ?? 0)
  }

  // Without a turn of the event loop in between, so that no other request's statement runs while foreign keys are off.
  // They are off because SQLite would search everybody's executions and trades, including live ones, for each row that
  // goes. A test over the schema proves that the list above leaves nothing dangling.
  return (tenantId, note) =>
    whenFree(() => {
      db.pragma('foreign_keys = off')
      try {
        sql.begin.run()
        lookAtSchema()
        const wiped = wipe(tenantId, note)
        sql.commit.run()
        lookAtName()
        return wiped
      } finally {
        if (db.inTransaction) sql.rollback.run()
        db.pragma('foreign_keys = on')
      }
    })
}
