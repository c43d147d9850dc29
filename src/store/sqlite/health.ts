import type { Usd } from '../../core/money.ts'
import type { HealthStore } from '../health.ts'
import { instant, instantOrNull, type TenantRow, tenantOf } from '../rows.ts'
import { createCheck } from './check.ts'
import type { Connection } from './connection.ts'
import { createPulse } from './pulse.ts'
import { createWarnings } from './warnings.ts'

export function createHealthStore(connection: Connection): HealthStore {
  const { db, read } = connection
  const sql = {
    lastTick: db.prepare<[], { at: bigint; finished_at: bigint | null; executions_created: bigint }>(
      'select at, finished_at, executions_created from ticks order by tick_id desc limit 1',
    ),
    plans: db.prepare<[], Count>('select status as name, count(*) as n from plans group by status'),
    partners: db.prepare<[], Count>('select status as name, count(*) as n from partners group by status'),
    due: db.prepare<object, { n: bigint; oldest: bigint | null }>(
      `select count(*) as n, min(created_at) as oldest from executions
       where status in ('pending', 'sent') and (lease_expires_at is null or lease_expires_at <= :now)`,
    ),
    open: db
      .prepare<[], bigint>("select count(*) from executions where status in ('pending', 'sent')")
      .pluck(),
    unspent: db.prepare<object, { n: bigint; released: bigint | null }>(
      `select count(*) as n, sum(released) as released from windows
       where close_reason = 'ended' and released > 0 and closed_at >= :since`,
    ),
    pausedWebhooks: db.prepare<[], TenantRow>(
      "select t.* from webhooks w join tenants t using (tenant_id) where w.status = 'paused' order by tenant_id",
    ),
    migrations: db.prepare<[], bigint>('select count(*) from migrations').pluck(),
  }
  const counted = <K extends string>(names: readonly K[], rows: Count[]): Record<K, number> =>
    Object.fromEntries(
      names.map((name) => [name, Number(rows.find((row) => row.name === name)?.n ?? 0)]),
    ) as Record<K, number>

  return {
    readStatus: (now, since) =>
      read(() => {
        const tick = sql.lastTick.get()
        const due = sql.due.get({ now })
        const unspent = sql.unspent.get({ since })
        return {
          lastTick: tick
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
        }
      }),

    readPulse: createPulse(connection),

    findFaults: createCheck(connection),
    findWarnings: createWarnings(connection),

    schemaVersion: () => Number(sql.migrations.get()),
  }
}

type Count = { name: string; n: bigint }
