// Writes when tenants last polled (../../last-polls.ts).

import { createPollNotes, type PollNotes } from '../../last-polls.ts'
import type { Connection } from '../file/connection.ts'

export function pollNotesOf({ db, write }: Connection): PollNotes {
  const insert = db.prepare(
    `insert into polls (tenant_id, polled_at) select value ->> 0, value ->> 1 from json_each(:polls) where true
     on conflict do update set polled_at = excluded.polled_at`,
  )
  return createPollNotes((polls) => write(() => insert.run({ polls: JSON.stringify(polls) })))
}
