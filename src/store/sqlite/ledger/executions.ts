// Executions: polled, confirmed, cancelled, listed.

import type { Execution } from '../../../core/execution.ts'
import type { Instant } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { ExecutionStore } from '../../executions.ts'
import { type ExecutionRow, executionOf } from '../../rows/execution.ts'
import type { AuditLog } from '../accounts/audit.ts'
import { IS_STUCK, OF_TENANT, SELECT_EXECUTION, SELECT_LISTED_EXECUTION } from '../expressions.ts'
import type { Connection } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import type { Confirmations } from './confirmations.ts'
import type { Stops } from './disable-user.ts'
import { createDueList } from './due-list.ts'
import type { LateReports } from './late-reports.ts'
import type { Ledger } from './ledger.ts'
import { type ListedExecutionRow, listedExecution, type Records } from './records.ts'

type DuePage = { executions: Execution[]; remaining: number }
type Handing = { limit: number; deliver: (seen: Execution, now: Instant) => Execution; now: Instant }
type Parts = {
  ledger: Ledger
  stops: Stops
  audit: AuditLog
  time: TenantTime
  confirmations: Confirmations
  lateReports: LateReports
  records: Records
}

export function createExecutionStore(connection: Connection, parts: Parts): ExecutionStore {
  const { ledger, stops, audit, time, confirmations, lateReports, records } = parts
  const { read, write } = connection
  const sql = prepare(connection)
  const dueList = createDueList(connection.db)

  /** Leases the first `limit` of what is due, and counts the rest. */
  function hand(tenant: Tenant, { limit, deliver, now }: Handing): DuePage {
    const executions = dueList.first(tenant, now, limit).map((row) => deliver(executionOf(row), now))
    const delivered = executions.map((one) => [
      one.executionId,
      one.status,
      one.deliveredCount,
      one.leaseExpiresAt,
    ])
    sql.deliver.run({ tenant: tenant.tenantId, delivered: JSON.stringify(delivered) })
    sql.forgetCounts.run({ tenant: tenant.tenantId })
    return { executions, remaining: dueList.count(tenant, now) }
  }

  return {
    async deliverDue(tenant, limit, deliver) {
      for (;;) {
        // Most polls find nothing: they take no write lock and wait for no disk.
        const found = await read(() => {
          if (stops.isAnyStopping(tenant)) return 'stopping'
          return dueList.count(tenant, time.of(tenant.tenantId, connection.present())) === 0
            ? 'nothing'
            : 'due'
        })
        if (found === 'nothing') return { executions: [], remaining: 0 }
        // Not one execution of a user who is being disabled is handed out: they are all cancelled first.
        if (found === 'stopping') await stops.finishAll(tenant)
        const page = await time.write(tenant, (now) =>
          stops.isAnyStopping(tenant) ? null : hand(tenant, { limit, deliver, now }),
        )
        if (page) return page
      }
    },

    changeExecution: (tenant, ids, decide) =>
      time.write(tenant, (now) => {
        const confirmation = decide(confirmations.seen(tenant, ids), now)
        if (confirmation.kind === 'recorded') confirmations.record(tenant, confirmation)
        if (confirmation.kind === 'refused') lateReports.keep(tenant, confirmation, now)
        return confirmation
      }),

    cancelExecution: (executionId, decide, entry) =>
      write((real) => {
        const record = records.get(executionId)
        const { execution, window } = decide(record, time.of(record.execution.tenant.tenantId, real))
        sql.cancel.run({
          execution_id: execution.executionId,
          cancelled_at: execution.cancelledAt,
          cancel_reason: execution.cancelReason,
        })
        ledger.write(window)
        audit.add(entry, real)
      }),

    readExecutions: ({ tenantId }, { after, limit }) =>
      read(() => {
        const { createdAt, executionId } = after
        const rows = sql.ofTenant.all({ tenant: tenantId, at: createdAt, id: executionId, limit })
        return { executions: rows.map(executionOf), now: time.of(tenantId, connection.present()) }
      }),

    listExecutions: ({ slug, environment, status, stuck }, { after, limit }) =>
      read(() => {
        const params = { slug, environment, status, stuck: Number(stuck), after: after ?? '', limit }
        return sql.list.all(params).map(listedExecution)
      }),

    findExecution: (executionId) => read(() => records.find(executionId)),
  }
}

function prepare({ db }: Connection) {
  return {
    // The plus keeps SQLite from going through the tenant's whole index for each of them.
    deliver: db.prepare(
      `update executions
       set status = d.value ->> 1, delivered_count = d.value ->> 2, lease_expires_at = d.value ->> 3
       from json_each(:delivered) d where execution_id = d.value ->> 0 and +tenant_id = :tenant`,
    ),
    ofTenant: db.prepare<object, ExecutionRow>(
      `${SELECT_EXECUTION} where e.tenant_id = :tenant and (e.created_at, e.execution_id) > (:at, :id)
       order by e.created_at, e.execution_id limit :limit`,
    ),
    forgetCounts: db.prepare('delete from open_counts where tenant_id = :tenant and n = 0'),
    cancel: db.prepare(
      `update executions set status = 'cancelled', cancelled_at = :cancelled_at, cancel_reason = :cancel_reason
       where execution_id = :execution_id`,
    ),
    list: db.prepare<object, ListedExecutionRow>(
      `${SELECT_LISTED_EXECUTION} where e.execution_id > :after and ${OF_TENANT}
         and (:status is null or e.status = :status)
         and (:stuck = 0 or (${IS_STUCK}))
       order by e.execution_id limit :limit`,
    ),
  }
}
