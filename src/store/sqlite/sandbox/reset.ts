// Wiping a test environment.

import type { Instant } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import type { Wiped } from '../../sandboxes.ts'
import type { Connection } from '../file/connection.ts'
import { whenFree } from '../file/when-free.ts'

/** What a reset empties, what refers to others first; the tenant's keys, webhook and clock are not among it. */
export const WIPED: readonly (readonly [table: string, rows: string])[] = [
  ['webhook_events', 'tenant_id = :tenant'],
  ['adjustments', 'tenant_id = :tenant'],
  ['late_reports', 'tenant_id = :tenant'],
  ['trades', 'tenant_id = :tenant'],
  ['executions', 'tenant_id = :tenant'],
  ['outcomes', 'tenant_id = :tenant'],
  ['open_counts', 'tenant_id = :tenant'],
  ['schedules', 'plan_id in (select plan_id from plans where tenant_id = :tenant)'],
  ['windows', 'plan_id in (select plan_id from plans where tenant_id = :tenant)'],
  ['stops', 'tenant_id = :tenant'],
  ['plans', 'tenant_id = :tenant'],
  ['consents', 'user_id in (select user_id from users where tenant_id = :tenant)'],
  ['users', 'tenant_id = :tenant'],
]

export type Wipe = (tenantId: number, note: (now: Instant) => void) => Promise<Wiped>

export function createWipe({ db, clock, lookAtName }: Connection): Wipe {
  const sql = {
    begin: db.prepare('begin immediate'),
    commit: db.prepare('commit'),
    rollback: db.prepare('rollback'),
    mark: db.prepare('update sandboxes set resetting = :resetting where tenant_id = :tenant'),
    wipe: WIPED.map(([table, rows]) => ({
      table,
      statement: db.prepare(`delete from ${table} where ${rows}`),
    })),
  }

  function wipe(tenant: number, note: (now: Instant) => void): Wiped {
    if (sql.mark.run({ tenant, resetting: 1 }).changes !== 1) {
      throw new Problem('sandbox_refused', 'Only a test environment can be wiped.')
    }
    const gone = new Map(
      sql.wipe.map(({ table, statement }) => [table, statement.run({ tenant }).changes] as const),
    )
    sql.mark.run({ tenant, resetting: 0 })
    note(clock())
    const count = (table: string) => gone.get(table) ?? 0
    return {
      users: count('users'),
      plans: count('plans'),
      windows: count('windows'),
      executions: count('executions'),
      trades: count('trades'),
    }
  }

  // Without a turn of the event loop between: no other request's statement runs while foreign keys are off. They are
  // off because SQLite would look through the executions and trades of everybody, live ones too, for each row that
  // goes; that the list above leaves nothing dangling is proved by a test over the schema.
  return (tenantId, note) =>
    whenFree(() => {
      db.pragma('foreign_keys = off')
      try {
        sql.begin.run()
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
