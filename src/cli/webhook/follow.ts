// The executions of a partner as they come, read from the list and never by polling: listing leases nothing, so the
// partner's own poller gets every instruction.

import type { ExecutionId } from '../../core/execution-id.ts'
import { formatInstant, type Instant, LATEST, MINUTE_MS, parseInstant } from '../../core/instant.ts'
import { Refused } from './service-reader.ts'

/** What is read of an execution in the list. */
export type Listed = { execution_id: ExecutionId; created_at: string }
type Page = { as_of: string; executions: Listed[]; next_cursor: string | null }
type Get = (path: string) => Promise<unknown>

const EXECUTION_ID = /^exec_[0-9a-f]{32}$/

/** Throws when an answer is not a page of executions: another program may listen at the address. */
function pageOf(answer: unknown): Page {
  const { as_of, executions, next_cursor } = Object(answer) as Page
  const isPage =
    parseInstant(String(as_of)).ok &&
    Array.isArray(executions) &&
    executions.every((one) => EXECUTION_ID.test(Object(one).execution_id))
  if (!isPage) throw new Refused('The service answers, but not with a list of executions.')
  return { as_of, executions, next_cursor }
}

/** How long before others see them a pass may have dated its executions. */
const LATE_MS = 5 * MINUTE_MS

export type Follower = {
  /** The executions that have come since the last time, oldest first. After a failure the next call has them all. */
  fresh: () => Promise<Listed[]>
}

/** Follows the list from now on: what is there already is not fresh. */
export async function follow(get: Get): Promise<Follower> {
  // Nothing is created after the last possible instant, and the answer says what time it is there.
  const { as_of } = pageOf(await get(`/executions?limit=1&since=${formatInstant(LATEST)}`))
  const since = formatInstant((Date.parse(as_of) - LATE_MS) as Instant)
  /** Where the last page begins, and what was seen on it: the next look begins there again. */
  let place = `since=${since}`
  let seen = new Set<string>()
  let found: Listed[] = []

  async function fresh(): Promise<Listed[]> {
    for (;;) {
      const { executions, next_cursor } = pageOf(await get(`/executions?${place}`))
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
