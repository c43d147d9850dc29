// Executions: polled, confirmed, cancelled, listed.

import { reportFingerprint } from '../../../core/trade.ts'
import type { ExecutionStore } from '../../executions.ts'
import { type ExecutionRow, executionOf } from '../../rows/execution.ts'
import { reportParams } from '../../rows/report.ts'
import type { AuditLog } from '../accounts/audit.ts'
import {
  IS_OPEN,
  IS_STUCK,
  OF_TENANT,
  SELECT_EXECUTION,
  SELECT_LISTED_EXECUTION,
  unleasedAt,
} from '../expressions.ts'
import type { Connection } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import type { Confirmations } from './confirmations.ts'
import type { Ledger } from './ledger.ts'
import { type ListedExecutionRow, listedExecution, type Records } from './records.ts'

const DUE = `e.tenant_id = :tenant and ${IS_OPEN} and ${unleasedAt(':now')}`

type Parts = {
  ledger: Ledger
  audit: AuditLog
  time: TenantTime
  confirmations: Confirmations
  records: Records
}

export function createExecutionStore(connection: Connection, parts: Parts): ExecutionStore {
  const { ledger, audit, time, confirmations, records } = parts
  const { read, write } = connection
  const sql = prepare(connection)

  return {
    async deliverDue(tenant, limit, deliver) {
      const scope = { tenant: tenant.tenantId }
      // Most polls find nothing: they take no write lock and wait for no disk.
      const nothing = await read(() => {
        const now = time.of(tenant.tenantId, connection.clock())
        return sql.anyDue.get({ ...scope, now }) === 0n
      })
      if (nothing) return { executions: [], remaining: 0 }
      return time.write(tenant, (now) => {
        const executions = sql.due.all({ ...scope, now, limit }).map((row) => deliver(executionOf(row), now))
        for (const execution of executions) {
          sql.deliver.run({
            ...scope,
            execution_id: execution.executionId,
            status: execution.status,
            delivered_count: execution.deliveredCount,
            lease_expires_at: execution.leaseExpiresAt,
          })
        }
        return { executions, remaining: Number(sql.countDue.get({ ...scope, now })) }
      })
    },

    changeExecution: (tenant, ids, decide) =>
      time.write(tenant, (now) => {
        const confirmation = decide(confirmations.seen(tenant, ids), now)
        if (confirmation.kind === 'recorded') confirmations.record(tenant, confirmation)
        if (confirmation.kind === 'kept_late') {
          sql.keepLate.run({
            execution_id: confirmation.execution.executionId,
            tenant: tenant.tenantId,
            fingerprint: reportFingerprint(confirmation.report),
            ...reportParams(confirmation.report),
            received_at: now,
          })
        }
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
    due: db.prepare<object, ExecutionRow>(
      `${SELECT_EXECUTION} where ${DUE} order by e.created_at, e.execution_id limit :limit`,
    ),
    anyDue: db.prepare<object, bigint>(`select exists (select 1 from executions e where ${DUE})`).pluck(),
    countDue: db.prepare<object, bigint>(`select count(*) from executions e where ${DUE}`).pluck(),
    deliver: db.prepare(
      `update executions set status = :status, delivered_count = :delivered_count,
         lease_expires_at = :lease_expires_at
       where tenant_id = :tenant and execution_id = :execution_id`,
    ),
    keepLate: db.prepare(
      `insert into late_reports (execution_id, tenant_id, fingerprint, partner_order_id, status, usd_amount,
         btc_amount, execution_price, partner_fee_usd, executed_at, failure_reason, received_at)
       values (:execution_id, :tenant, :fingerprint, :partner_order_id, :status, :usd_amount,
         :btc_amount, :execution_price, :partner_fee_usd, :executed_at, :failure_reason, :received_at)
       on conflict do nothing`,
    ),
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
