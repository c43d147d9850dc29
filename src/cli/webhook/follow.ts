// The executions of a partner as they come, read from the list and never from a poll: what is only listed is leased to
// nobody, so that the partner's own poller gets every instruction.

import type { ExecutionId } from '../../core/execution-id.ts'
import { formatInstant, type Instant, LATEST, MINUTE_MS } from '../../core/instant.ts'

/** What is read of an execution in the list. */
export type Listed = { execution_id: ExecutionId; created_at: string }
type Page = { as_of: string; executions: Listed[]; next_cursor: string | null }
type Get = (path: string) => Promise<unknown>

/** A pass may have dated its executions so long before others see them. */
const LATE_MS = 5 * MINUTE_MS

export type Follower = {
  /** The executions that have come since the last time, oldest first. After a failure the next call has them all. */
  fresh: () => Promise<Listed[]>
}

/** Follows the list from now on: what is there already is not fresh. */
export async function follow(get: Get): Promise<Follower> {
  // Nothing is created after the last instant there is, and the answer says what time it is there.
  const { as_of } = (await get(`/executions?limit=1&since=${formatInstant(LATEST)}`)) as Page
  const since = formatInstant((Date.parse(as_of) - LATE_MS) as Instant)
  /** Where the last page begins, and what of it was seen: the next look begins there again. */
  let place = `since=${since}`
  let seen = new Set<string>()
  let found: Listed[] = []

  async function fresh(): Promise<Listed[]> {
    for (;;) {
      const { executions, next_cursor } = (await get(`/executions?${place}`)) as Page
      found.push(...executions.filter(({ execution_id }) => !seen.has(execution_id)))
      seen = new Set(next_cursor === null ? executions.map(({ execution_id }) => execution_id) : [])
      if (next_cursor === null) break
      place = `cursor=${next_cursor}`
    }
    const all = found
    found = []
    return all
  }
  await fresh()
  return { fresh }
}
