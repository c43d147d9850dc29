// Writes when tenants last polled (../../last-polls.ts).

import { createPollNotes, type PollNotes } from '../../last-polls.ts'
import type { Connection } from '../server/connection.ts'
import { arraysOf, type Columns, rowsIn } from '../server/rows-in.ts'
import { query } from '../server/statement.ts'

const POLLED = { tenant_id: 'bigint', polled_at: 'bigint' } satisfies Columns
const PUT = query(
  `insert into polls (tenant_id, polled_at) select * from ${rowsIn(POLLED, 'r')} order by tenant_id
   on conflict (tenant_id) do update set polled_at = excluded.polled_at`,
)

export function pollNotesOf({ write }: Connection): PollNotes {
  return createPollNotes((polls) => {
    const rows = polls.map(([tenant_id, polled_at]) => ({ tenant_id, polled_at }))
    return write((tx) => tx.run(PUT, arraysOf(POLLED, rows)))
  })
}
