// Polls by hand: a page of what waits is read, leased row by row, and written as JSON.

import { machine } from '../../../../src/machine.ts'
import type { RawWork } from './raw.ts'

const PAGE = 500
const LEASE_MS = 300_000

type Due = { execution_id: string }

export const rawPolls: RawWork = (db) => {
  const tenant = db.prepare<[], number>('select tenant_id from executions limit 1').pluck().get()
  const sql = {
    due: db.prepare<object, Due>(
      `select e.*, p.partner_plan_id, u.partner_user_id
       from executions e join plans p on p.plan_id = e.plan_id join users u on u.user_id = p.user_id
       where e.tenant_id = :tenant and e.status in ('pending', 'sent') and e.lease_expires_at is null
       order by e.created_at, e.execution_id limit :page`,
    ),
    lease: db.prepare(
      `update executions set status = 'sent', delivered_count = delivered_count + 1, lease_expires_at = :lease
       where execution_id = :id`,
    ),
  }
  return () => {
    const rows = sql.due.all({ tenant, page: PAGE })
    if (rows.length < PAGE) throw new Error(`${rows.length} executions are due, and a poll takes ${PAGE}`)
    const lease = machine.clock() + LEASE_MS
    for (const { execution_id } of rows) sql.lease.run({ id: execution_id, lease })
    JSON.stringify(rows)
  }
}
