// The counts of the status, and the version of the schema.

import type { Usd } from '../../../core/money.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import type { StatusStore } from '../../status.ts'
import { ENDED_UNSPENT, IN_REAL_TIME } from '../expressions.ts'
import type { Connection } from '../file/connection.ts'
import { createRecent } from './recent.ts'

export function createStatusStore(connection: Connection): StatusStore {
  const { db, read } = connection
  const sql = {
    partners: db.prepare<[], Count>('select status as name, count(*) as n from partners group by status'),
    unspent: db.prepare<object, { n: bigint; released: bigint | null }>(
      // Windows of a sandbox end by the month in a second, and nobody's money was left unspent.
      `select count(*) as n, sum(w.released) as released from windows w
       join plans p using (plan_id) where ${ENDED_UNSPENT} and ${IN_REAL_TIME}`,
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
    readStatus: (since) =>
      read(() => {
        const unspent = sql.unspent.get({ since })
        return {
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
