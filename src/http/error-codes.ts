// Refusals on the wire: the code and the status of each, and one way to write an error body.

import { FrozenProblem } from '../core/frozen.ts'
import type { CallProblem, Problem, ProblemCode, SharedProblem } from '../core/problem.ts'

/** The codes in X-Error-Code, with their status. A code keeps its name and its meaning for ever (docs/api.md). */
export const ERROR_STATUS = {
  bad_request: 400,
  body_not_utf8: 400,
  consent_required: 400,
  amount_over_reservation: 400,
  webhook_refused: 400,
  key_malformed: 401,
  key_invalid: 401,
  partner_disabled: 403,
  user_disabled: 403,
  test_key_required: 403,
  route_not_found: 404,
  user_not_found: 404,
  user_never_linked: 404,
  plan_not_found: 404,
  execution_not_found: 404,
  webhook_not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  plan_bound_elsewhere: 409,
  plan_cancelled: 409,
  execution_pending: 409,
  execution_recorded: 409,
  execution_cancelled: 409,
  order_id_taken: 409,
  sandbox_refused: 409,
  sandbox_busy: 409,
  sandbox_full: 409,
  body_too_large: 413,
  body_encoded: 415,
  expectation_failed: 417,
  misdirected: 421,
  validation_failed: 422,
  rate_limited: 429,
  too_many_calls: 429,
  headers_too_large: 431,
  internal_error: 500,
  starting: 503,
  database_busy: 503,
  database_unavailable: 503,
  service_moved: 503,
  service_frozen: 503,
  service_outdated: 503,
} as const

export type ErrorCode = keyof typeof ERROR_STATUS
export const ERROR_CODES = Object.keys(ERROR_STATUS) as ErrorCode[]
export const ERROR_HEADER = 'x-error-code'

export type ValidationDetail = { type: string; loc: (string | number)[]; msg: string }

export const errorBody = (detail: string | ValidationDetail[]): string => JSON.stringify({ detail })

const CHALLENGE = { 'www-authenticate': 'Bearer' }

export class Refusal extends Error {
  readonly code: ErrorCode
  readonly status: number
  readonly detail: string | ValidationDetail[]
  readonly headers: Record<string, string>
  /** The media type of a body that is not JSON, for the call's line in the log. */
  readonly contentType: string | undefined

  constructor(
    code: ErrorCode,
    detail: string | ValidationDetail[],
    headers: Record<string, string> = {},
    contentType?: string,
  ) {
    super(typeof detail === 'string' ? detail : 'validation failed')
    this.contentType = contentType
    this.code = code
    this.status = ERROR_STATUS[code]
    this.detail = detail
    this.headers = { ...(this.status === 401 && CHALLENGE), ...headers, [ERROR_HEADER]: code }
  }
}

const CANNOT_BE_USED = {
  detail: 'The database cannot be read or written at present; send the call again later.',
  retryAfter: '10',
}

/** The answer to a partner while the database cannot be used, and the seconds to wait before the next try. */
export const PUT_OFF: Partial<Record<ProblemCode, { detail: string; retryAfter: string }>> = {
  database_gone: {
    detail: 'The service has lost its database; send the call again later.',
    retryAfter: '60',
  },
  database_locked: { detail: 'The database is busy; send the call again.', retryAfter: '1' },
  database_damaged: CANNOT_BE_USED,
  storage_failed: CANNOT_BE_USED,
  database_moved: {
    detail:
      'The service has moved to another database, and this host still uses the former one; send the call again later.',
    retryAfter: '60',
  },
  database_frozen: { detail: 'The service is frozen; send the call again later.', retryAfter: '60' },
  // With a database server, another host may have been upgraded and have migrated the schema while this one still
  // serves.
  schema_newer: {
    detail: 'This host is older than its database; send the call again later.',
    retryAfter: '10',
  },
}

/** Problems with another name on the wire. All other problems of a call keep theirs. */
const CALLED: Record<Exclude<CallProblem | SharedProblem, ErrorCode>, ErrorCode> = {
  user_not_linked: 'user_disabled',
  database_in_use: 'sandbox_busy',
  database_gone: 'database_unavailable',
  database_locked: 'database_busy',
  database_damaged: 'database_unavailable',
  database_moved: 'service_moved',
  database_frozen: 'service_frozen',
  storage_failed: 'database_unavailable',
  schema_newer: 'service_outdated',
}

/** The name of a problem on the wire. A problem of commands only would be a bug here. */
export function errorCodeOf(code: ProblemCode): ErrorCode {
  if (Object.hasOwn(ERROR_STATUS, code)) return code as ErrorCode
  return (CALLED as Partial<Record<ProblemCode, ErrorCode>>)[code] ?? 'internal_error'
}

export const INTERNAL_ERROR = new Refusal('internal_error', 'Internal Server Error')

/** The answer for a problem, in the problem's own words where its caller can fix it. */
export function refusalFor(problem: Problem): Refusal {
  const { code, message } = problem
  const named = errorCodeOf(code)
  const putOff = PUT_OFF[code]
  if (putOff) {
    const detail =
      problem instanceof FrozenProblem
        ? `The service is frozen: ${problem.told}. Send the call again later.`
        : putOff.detail
    return new Refusal(named, detail, { 'retry-after': putOff.retryAfter })
  }
  return ERROR_STATUS[named] < 500 ? new Refusal(named, message) : INTERNAL_ERROR
}
