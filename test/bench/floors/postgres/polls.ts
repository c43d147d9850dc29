// Polls by hand: a page of what waits is locked, leased in one statement, and written as JSON.

import { machine } from '../../../../src/machine.ts'
import type { RawWork } from './raw.ts'
import { ask, transaction } from './statements.ts'

const PAGE = 500
const LEASE_MS = 300_000

const DUE = {
  name: 'due',
  // The page first: joined before it is cut, all that waits would be joined and sorted.
  text: `with page as materialized (
      select * from executions e
      where e.tenant_id = $1 and e.status in ('pending', 'sent') and coalesce(e.lease_expires_at, 0) = 0
      order by coalesce(e.lease_expires_at, 0), e.created_at, e.execution_id limit ${PAGE}
      for no key update skip locked)
    select page.*, p.partner_plan_id, u.partner_user_id
    from page join plans p on p.plan_id = page.plan_id join users u on u.user_id = p.user_id
    order by page.created_at, page.execution_id`,
}
const LEASE = {
  name: 'lease',
  text: `update executions set status = 'sent', delivered_count = delivered_count + 1, lease_expires_at = $2
    where execution_id = any($1)`,
}

export const rawPolls: RawWork = async (client) => {
  const { rows } = await client.query('select tenant_id as tenant from executions limit 1')
  const tenant = rows[0].tenant
  return (client) =>
    transaction(
      client,
      () => ask(client, DUE, [tenant]),
      ({ rows }: { rows: { execution_id: string }[] }) => {
        if (rows.length < PAGE) throw new Error(`${rows.length} executions are due, and a poll takes ${PAGE}`)
        JSON.stringify(rows)
        return [
          ask(client, LEASE, [rows.map(({ execution_id }) => execution_id), machine.clock() + LEASE_MS]),
        ]
      },
    )
}
