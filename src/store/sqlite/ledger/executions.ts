// Executions: polled, confirmed, cancelled, listed.

import type { Execution } from '../../../core/execution.ts'
import type { Instant } from '../../../core/instant.ts'
import { RECORDED_SINCE } from '../../../core/keep-late-fill.ts'
import type { Tenant } from '../../../core/partner.ts'
import { SEAL, type SealRow, sealIn } from '../../copying/read-seal.ts'
import { sealedProblem } from '../../copying/seal-words.ts'
import { isIntact } from '../../digests.ts'
import type { ExecutionStore } from '../../executions.ts'
import type { PollNotes } from '../../last-polls.ts'
import {
  type ExecutionRow,
  executionOf,
  executionsOfOrder,
  type ListedExecutionRow,
  listedExecution,
  type OrderRow,
} from '../../rows/execution.ts'
import {
  CANCEL_EXECUTION,
  EXECUTIONS_OF_ORDER,
  EXECUTIONS_OF_TENANT,
  LIST_EXECUTIONS,
  listingParams,
  NEWEST_EXECUTION,
} from '../../sql/executions.ts'
import { OF_TENANT } from '../../sql/which-tenants.ts'
import type { AuditLog } from '../accounts/audit.ts'
import type { Connection } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import type { Confirmations } from './confirmation-rows.ts'
import type { Stops } from './disable-user.ts'
import { createDueList } from './due-executions.ts'
import type { Records } from './execution-record.ts'
import type { LateReports } from './late-fills.ts'
import type { Ledger } from './windows-and-schedules.ts'

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
  polls: PollNotes
}

export function createExecutionStore(connection: Connection, parts: Parts): ExecutionStore {
  const { ledger, stops, audit, time, confirmations, lateReports, records, polls } = parts
  const { clock, read, write } = connection
  const sql = prepare(connection)
  const dueList = createDueList(connection.db)

  /** Leases the first `limit` of what is due, and counts the rest. */
  function hand(tenant: Tenant, { limit, deliver, now }: Handing): DuePage {
    const due = dueList.first(tenant, now, limit)
    // Nobody buys on the word of a row that is damaged. The check names it, and it stays where it is.
    const sound = due.filter((row) => isIntact('executions', row))
    const executions = sound.map((row) => deliver(executionOf(row), now))
    const delivered = executions.map((one) => [
      one.executionId,
      one.status,
      one.deliveredCount,
      one.leaseExpiresAt,
    ])
    sql.deliver.run({ tenant: tenant.tenantId, delivered: JSON.stringify(delivered) })
    sql.forgetCounts.run({ tenant: tenant.tenantId })
    return { executions, remaining: dueList.count(tenant, now) - (due.length - sound.length) }
  }

  /** A cursor after which everything created since then follows; null when nothing was. Nothing before it is read. */
  function begin(params: { since: Instant | null }): string | null {
    if (params.since === null) return ''
    return sql.earliest.get(params)?.slice(0, -1) ?? null
  }

  return {
    async deliverDue(tenant, limit, deliver) {
      polls.note(tenant, clock())
      for (;;) {
        // Most polls find nothing: they take no write lock and wait for no disk.
        const found = await read(() => {
          // A poll that finds nothing would write nothing, and so would not learn of it.
          const seal = sealIn(sql.seal.get())
          if (seal) throw sealedProblem(seal)
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
        if (confirmation.kind === 'recorded') {
          confirmations.record(tenant, confirmation)
          if (confirmation.settles !== null)
            lateReports.decide(confirmation.settles, { now, reason: RECORDED_SINCE })
        }
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

    listExecutions: (filter, { after, limit }) =>
      read(() => {
        const params = { ...listingParams(filter, clock()), limit }
        const start = after ?? begin(params)
        return start === null ? [] : sql.list.all({ ...params, after: start }).map(listedExecution)
      }),

    cursorOfNewest: (filter, count) =>
      read(() => {
        const params = { ...listingParams(filter, clock()), skipped: count }
        const start = begin(params)
        return start === null ? null : (sql.newest.get({ ...params, after: start }) ?? null)
      }),

    findExecution: (executionId) => read(() => records.find(executionId)),

    findByOrder: (filter, order) => read(() => executionsOfOrder(sql.ofOrder.all({ ...filter, order }))),
  }
}

function prepare({ db }: Connection) {
  return {
    seal: db.prepare<[], SealRow>(SEAL.text),
    // The plus keeps SQLite from reading the tenant's whole index for each of them.
    deliver: db.prepare(
      `update executions
       set status = d.value ->> 1, delivered_count = d.value ->> 2, lease_expires_at = d.value ->> 3
       from json_each(:delivered) d where execution_id = d.value ->> 0 and +tenant_id = :tenant`,
    ),
    ofTenant: db.prepare<object, ExecutionRow>(EXECUTIONS_OF_TENANT),
    forgetCounts: db.prepare('delete from open_counts where tenant_id = :tenant and n = 0'),
    cancel: db.prepare(CANCEL_EXECUTION),
    list: db.prepare<object, ListedExecutionRow>(LIST_EXECUTIONS),
    ofOrder: db.prepare<object, OrderRow>(EXECUTIONS_OF_ORDER),
    earliest: db
      .prepare<object, string | null>(
        `select min(e.execution_id) from tenants t cross join executions e on e.tenant_id = t.tenant_id
         where ${OF_TENANT} and e.created_at >= :since`,
      )
      .pluck(),
    newest: db.prepare<object, string>(NEWEST_EXECUTION).pluck(),
  }
}
