// The log of calls: one line for each call with a key, under the id in its answer. Calls without a key, and errors that
// repeat, are limited to as many lines as a person can use, because a stranger decides how many there are.

import { Problem } from '../core/problem.ts'
import { SECOND_MS } from '../core/time.ts'
import type { Log } from '../log.ts'

/** How many calls refused without a known key are logged each second. */
export const KEYLESS_LINES_MAX = 10
/** How long an error that recurs is logged without its stack. */
const STACK_EVERY_MS = 60_000
/** How many different errors are remembered; a larger number counts as a flood too. */
const ERRORS_MAX = 100

export type CallLine = {
  request_id: string
  method: string
  /** The route's pattern; null for a path that has no route. */
  route: string | null
  /** Null for a call without a known key. */
  partner_slug: string | null
  environment: string | null
  status: number
  duration_ms: number
  /** The code of the refusal in the answer's header; absent for a call that was not refused. */
  error_code?: string
  /** The fields that its route does not know, as the header of its answer names them. */
  ignored_fields?: string
  /** The media type that its client gave for a body that is not JSON. */
  content_type?: string
}

/** The milliseconds since a `performance.now()`, for a line. */
export const durationSince = (started: number): number =>
  Math.round((performance.now() - started) * 100) / 100

type CallLog = (line: CallLine, bug: unknown) => void

/**
 * Logs calls. `bug` is the error that made a call fail, if the caller did not cause it; else null. Once the database is
 * gone, every call meets that error.
 */
export function createCallLog(log: Log): CallLog {
  const stacks = new Map<string, number>()
  let keyless = 0
  let saidGone = false

  /** Counts a call without a key; false when this second has had its lines. */
  function hasLine(): boolean {
    keyless += 1
    if (keyless === 1) setTimeout(sumUp, SECOND_MS).unref()
    return keyless <= KEYLESS_LINES_MAX
  }

  function sumUp(): void {
    const unsaid = keyless - KEYLESS_LINES_MAX
    keyless = 0
    if (unsaid > 0) log.warn({ calls: unsaid }, 'more refused calls, not logged one by one')
  }

  function hasStack(error: string): boolean {
    const now = performance.now()
    if (now - (stacks.get(error) ?? Number.NEGATIVE_INFINITY) < STACK_EVERY_MS) return false
    if (stacks.size >= ERRORS_MAX) stacks.clear()
    stacks.set(error, now)
    return true
  }

  return (line, bug) => {
    if (bug instanceof Problem && bug.code === 'database_gone') {
      if (!saidGone)
        log.error({ ...line, err: bug }, 'the database is gone: every call is refused from now on')
      else if (hasLine()) log.info(line, 'request')
      saidGone = true
    } else if (bug instanceof Problem) {
      log.error({ ...line, error: bug.message }, 'request failed')
    } else if (bug) {
      const error = String(bug)
      log.error({ ...line, ...(hasStack(error) ? { err: bug } : { error }) }, 'request failed')
    } else if (line.partner_slug !== null || hasLine()) log.info(line, 'request')
  }
}
