// The counts of the status, and the version of the schema.

import type { Usd } from '../../../core/money.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import type { StatusStore } from '../../status.ts'
import { IS_OPEN, UNLEASED_IN_OWN_TIME } from '../expressions.ts'
import type { Connection } from '../file/connection.ts'
import { createRecent } from './recent.ts'

export function createStatusStore(connection: Connection): StatusStore {
  const { db, read } = connection
  const sql = {
    lastPass: db.prepare<[], { at: bigint; finished_at: bigint | null; executions_created: bigint }>(
      'select at, finished_at, executions_created from ticks order by tick_id desc limit 1',
    ),
    plans: db.prepare<[], Count>('select status as name, count(*) as n from plans group by status'),
    partners: db.prepare<[], Count>('select status as name, count(*) as n from partners group by status'),
    due: db.prepare<object, { n: bigint; oldest: bigint | null }>(
      // A lease ends by its tenant's own time; how long something waits is nobody's alarm in a sandbox.
      `select count(*) as n, min(case when s.tenant_id is null then e.created_at end) as oldest
       from executions e left join sandboxes s on s.tenant_id = e.tenant_id
       where ${IS_OPEN} and ${UNLEASED_IN_OWN_TIME}`,
    ),
    open: db.prepare<[], bigint>(`select count(*) from executions e where ${IS_OPEN}`).pluck(),
    unspent: db.prepare<object, { n: bigint; released: bigint | null }>(
      // Windows of a sandbox end by the month in a second, and nobody's money was left unspent.
      `select count(*) as n, sum(w.released) as released from windows w
       where w.close_reason = 'ended' and w.released > 0 and w.closed_at >= :since
         and not exists (
           select 1 from plans p join sandboxes s on s.tenant_id = p.tenant_id where p.plan_id = w.plan_id)`,
    ),
    pausedWebhooks: db.prepare<[], TenantRow>(
      "select t.* from webhooks w join tenants t using (tenant_id) where w.status = 'paused' order by tenant_id",
    ),
    undecided: db.prepare<[], bigint>('select count(*) from late_reports where decided_at is null').pluck(),
    migrations: db.prepare<[], bigint>('select count(*) from migrations').pluck(),
  }
  const counted = <K extends string>(names: readonly K[], rows: Count[]): Record<K, number> =>
    Object.fromEntries(
      names.map((name) => [name, Number(rows.find((row) => row.name === name)?.n ?? 0)]),
    ) as Record<K, number>

  return {
    readStatus: (now, since) =>
      read(() => {
        const pass = sql.lastPass.get()
        const due = sql.due.get({ now })
        const unspent = sql.unspent.get({ since })
        return {
          lastPass: pass
            ? {
                at: instant(pass.at),
                finishedAt: instantOrNull(pass.finished_at),
                executionsCreated: Number(pass.executions_created),
              }
            : null,
          plans: counted(['active', 'paused', 'cancelled'], sql.plans.all()),
          due: { count: Number(due?.n ?? 0), oldestAt: instantOrNull(due?.oldest ?? null) },
          openExecutions: Number(sql.open.get()),
          unspentWindows: {
            count: Number(unspent?.n ?? 0),
            released: (unspent?.released ?? 0n) as Usd,
            since,
          },
          partners: counted(['active', 'disabled'], sql.partners.all()),
          pausedWebhooks: sql.pausedWebhooks.all().map(tenantOf),
          lateFillsUndecided: Number(sql.undecided.get()),
        }
      }),

    readRecent: createRecent(connection),

    schemaVersion: () => Number(sql.migrations.get()),
  }
}

type Count = { name: string; n: bigint }
