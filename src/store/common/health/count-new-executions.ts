// How many executions there are after a mark: a count that continues from where it was last read.

import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Environment } from '../../../core/partner.ts'
import type { MonitoringStore } from '../../monitoring.ts'
import { breathe, PAGE_ROWS, type Reader, sql } from '../reader.ts'

type CreatedRow = { environment: Environment; n: bigint; last: ExecutionId }
export const NEWEST_EXECUTION = sql<{ newest: ExecutionId | null }>(
  'select max(execution_id) as newest from executions',
)
const NEWEST_PASS = sql<{ newest: bigint | null }>('select max(tick_id) as newest from ticks')
const CREATED = sql<CreatedRow>(
  `select t.environment, count(*) as n, max(x.execution_id) as last
   from (select tenant_id, execution_id from executions
         where execution_id > :after and execution_id <= :until order by execution_id limit :limit) x
   join tenants t on t.tenant_id = x.tenant_id group by t.environment`,
)

/**
 * `settled` is the newest execution, once nothing below it can appear any more: null when there is none, undefined when
 * that takes too long. A count that is not settled waits for the next look.
 */
export function marksReader(
  reader: Reader,
  settled: () => Promise<ExecutionId | null | undefined>,
): Pick<MonitoringStore, 'readMarks' | 'countExecutionsAfter'> {
  const newest = async () => (await reader.get(NEWEST_EXECUTION))?.newest ?? null
  return {
    async readMarks() {
      const executionId = await settled()
      return {
        executionId: executionId === undefined ? await newest() : executionId,
        passId: Number((await reader.get(NEWEST_PASS))?.newest ?? 0n),
      }
    },

    async countExecutionsAfter(after) {
      const created: Record<Environment, number> = { test: 0, live: 0 }
      const until = await settled()
      let last = after
      if (!until) return { created, last }
      for (;;) {
        const rows = await reader.all(CREATED, { after: last ?? '', until, limit: PAGE_ROWS })
        for (const { environment, n } of rows) created[environment] += Number(n)
        for (const row of rows) if (last === null || row.last > last) last = row.last
        if (rows.reduce((sum, { n }) => sum + Number(n), 0) < PAGE_ROWS) return { created, last }
        await breathe()
      }
    },
  }
}
