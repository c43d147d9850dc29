// Executions: polled (poll.ts), confirmed (confirm-together.ts), cancelled, listed.

import type { Execution } from '../../../core/execution.ts'
import { type Instant, MINUTE_MS, plus } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { ExecutionStore, ExecutionsPage } from '../../executions.ts'
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
import { callOf } from '../../transaction.ts'
import { addAudit } from '../accounts/audit.ts'
import { timeOf } from '../sandbox/tenant-time.ts'
import type { Connection } from '../server/connection.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { createConfirm } from './confirm-together.ts'
import { createStops } from './disable-user.ts'
import { records, writeRecord } from './execution-record.ts'
import { createPoll } from './poll.ts'
import { ledger } from './windows-and-schedules.ts'

const CANCEL = query(CANCEL_EXECUTION)
const OF_TENANT_PAGE = query<ExecutionRow>(EXECUTIONS_OF_TENANT)
const OF_ORDER = query<OrderRow>(EXECUTIONS_OF_ORDER)
const LIST = query<ListedExecutionRow>(LIST_EXECUTIONS)
const NEWEST = query<{ execution_id: string }>(NEWEST_EXECUTION)
// Without the order and the offset, the planner may look for the least id in the whole table, and would read all of it
// for each tenant that has none.
const EARLIEST = query<{ first: string | null }>(
  `select min((select min(e.execution_id) from (
     select o.execution_id from executions o where o.tenant_id = t.tenant_id and o.created_at >= :since
     order by o.created_at, o.execution_id offset 0) e)) as first
   from tenants t where ${OF_TENANT}`,
)

/** No write takes longer than this: nothing more is added among what was created before. */
const WRITE_MAX_MS = 5 * MINUTE_MS

export function createExecutionStore(connection: Connection, notes: PollNotes): ExecutionStore {
  const { clock, read, write } = connection
  const poll = createPoll(connection, { stops: createStops(connection), notes })
  const confirm = createConfirm(connection)

  return {
    deliverDue: (tenant, limit, deliver) => poll(tenant, { limit, deliver }),

    changeExecution: (tenant, ids, decide) => confirm(tenant, ids, decide),

    cancelExecution: (executionId, decide, entry) =>
      writeRecord(connection, executionId, {
        async work(tx, record, times) {
          const { execution, window } = decide(record, times.of(record.execution.tenant.tenantId))
          await Promise.all([
            tx.run(CANCEL, {
              execution_id: execution.executionId,
              cancelled_at: execution.cancelledAt,
              cancel_reason: execution.cancelReason,
            }),
            ledger.write(tx, window),
            addAudit(tx, entry, times.real),
          ])
        },
      }),

    async readExecutions(tenant, page) {
      const seen = await read(async (tx) => {
        const real = await clock.present(tx)
        return readPage(tx, tenant, page, await timeOf(tx, tenant.tenantId, real))
      }, callOf(tenant))
      // Writes do not end in the order in which they read the clock. A reader that goes on after the end of the list
      // must not miss what is dated earlier but committed later, so the list waits for that.
      if (isSettled(seen, page)) return seen
      return write(async (tx) => readPage(tx, tenant, page, (await tx.times).of(tenant.tenantId)), {
        ...callOf(tenant),
        alone: 'tenants',
      })
    },

    listExecutions: (filter, { after, limit }) =>
      read(
        async (tx) => {
          const params = { ...listingParams(filter, await clock.now(tx)), limit }
          const start = after ?? (await begin(tx, params))
          return start === null ? [] : (await tx.all(LIST, { ...params, after: start })).map(listedExecution)
        },
        { reads: 'large' },
      ),

    cursorOfNewest: (filter, count) =>
      read(
        async (tx) => {
          const params = { ...listingParams(filter, await clock.now(tx)), skipped: count }
          const start = await begin(tx, params)
          if (start === null) return null
          return (await tx.get(NEWEST, { ...params, after: start }))?.execution_id ?? null
        },
        { reads: 'large' },
      ),

    findExecution: (executionId) => read((tx) => records.find(tx, executionId)),

    findByOrder: (filter, order) =>
      read(async (tx) => executionsOfOrder(await tx.all(OF_ORDER, { ...filter, order }))),
  }
}

type Read = { executions: Execution[]; now: Instant }

async function readPage(
  tx: Tx,
  { tenantId }: Tenant,
  { after, limit }: ExecutionsPage,
  now: Instant,
): Promise<Read> {
  const { createdAt, executionId } = after
  const rows = await tx.all(OF_TENANT_PAGE, { tenant: tenantId, at: createdAt, id: executionId, limit })
  return { executions: rows.map(executionOf), now }
}

/** Whether nothing can be added to a page any more: it is full, and older than every write that is under way. */
function isSettled({ executions, now }: Read, { limit }: ExecutionsPage): boolean {
  const last = executions[limit - 1]
  return last !== undefined && last.createdAt < plus(now, -WRITE_MAX_MS)
}

/** A cursor after which everything created since then follows; null when nothing was. Nothing before it is read. */
async function begin(tx: Tx, params: { since: Instant | null }): Promise<string | null> {
  if (params.since === null) return ''
  return (await tx.get(EARLIEST, params))?.first?.slice(0, -1) ?? null
}
