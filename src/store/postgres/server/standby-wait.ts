// Whether a server keeps its clients waiting for a standby, in words.

import { openAlone } from './pool.ts'

/** A standby that is there answers within milliseconds. */
const HELD_BACK = `select current_setting('synchronous_standby_names') as names from pg_stat_activity
  where usename = current_user and datname = current_database() and wait_event = 'SyncRep'
    and state_change < clock_timestamp() - interval '3 seconds' limit 1`

/** In words, if it has held up a commit of this user for some seconds; otherwise null. */
export async function heldBackFor(url: string, server: string): Promise<string | null> {
  const client = await openAlone(url)
  try {
    const { rows } = await client.query<{ names: string }>(HELD_BACK)
    const [held] = rows
    if (!held) return null
    return `${server} waits for a standby before it answers (synchronous_standby_names = ${held.names}), and none that counts has answered yet; still waiting`
  } finally {
    await client.end().catch(() => {})
  }
}
