import type { Usd } from '../../../core/money.ts'
import type { HealthStore } from '../../health.ts'
import { instant, instantOrNull, type TenantRow, tenantOf } from '../../rows.ts'
import type { Connection } from '../file/connection.ts'
import { unleasedAt } from '../ledger/ledger.ts'
import { createCheck } from './ledger-check.ts'
import { createPulse } from './recent.ts'
import { createWarnings } from './warnings.ts'

export function createHealthStore(connection: Connection): HealthStore {
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
       where e.status in ('pending', 'sent')
         and ${unleasedAt('(:now + coalesce(s.offset_ms, 0))')}`,
    ),
    open: db
      .prepare<[], bigint>("select count(*) from executions where status in ('pending', 'sent')")
      .pluck(),
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
    undecided: db
      .prepare<[], bigint>(
        `select count(distinct l.execution_id) from late_reports l
         left join trades d on d.execution_id = l.execution_id
         where l.status in ('filled', 'partial') and d.execution_id is null`,
      )
      .pluck(),
    migrations: db.prepare<[], bigint>('select count(*) from migrations').pluck(),
  }
  const counted = <K extends string>(names: readonly K[], rows: Count[]): Record<K, number> =>
    Object.fromEntries(
      names.map((name) => [name, Number(rows.find((row) => row.name === name)?.n ?? 0)]),
    ) as Record<K, number>

  return {
    readStatus: (now, since) =>
      read(() => {
        const tick = sql.lastPass.get()
        const due = sql.due.get({ now })
        const unspent = sql.unspent.get({ since })
        return {
          lastPass: tick
            ? {
                at: instant(tick.at),
                finishedAt: instantOrNull(tick.finished_at),
                executionsCreated: Number(tick.executions_created),
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

    readPulse: createPulse(connection),

    findFaults: createCheck(connection),
    findWarnings: createWarnings(connection),

    schemaVersion: () => Number(sql.migrations.get()),
  }
}

type Count = { name: string; n: bigint }
