// Refusals on the wire: one table from problem to status, and one form of an error body.

import type { CallProblem, ProblemCode, SharedProblem } from '../core/problem.ts'

export type ValidationDetail = { type: string; loc: (string | number)[]; msg: string }

/** A refusal by HTTP itself, not by a rule of the core. */
export class Refusal extends Error {
  readonly status: number
  readonly detail: string | ValidationDetail[]
  readonly headers: Record<string, string>
  /** The media type of a body that is not JSON, for the call's line in the log. */
  readonly contentType: string | undefined

  constructor(
    status: number,
    detail: string | ValidationDetail[],
    headers: Record<string, string> = {},
    contentType?: string,
  ) {
    super(typeof detail === 'string' ? detail : 'validation failed')
    this.contentType = contentType
    this.status = status
    this.detail = detail
    this.headers = headers
  }
}

/** Sent with every 401: how to authenticate. */
export const CHALLENGE = { 'www-authenticate': 'Bearer' }

const CANNOT_BE_USED = {
  detail: 'The database cannot be read or written at present; send the call again later.',
  retryAfter: '10',
}

/**
 * What a partner learns about a database that cannot be used, and after how many seconds to try again; the log tells
 * the operator more.
 */
export const PUT_OFF: Partial<Record<ProblemCode, { detail: string; retryAfter: string }>> = {
  database_gone: {
    detail: 'The service has lost its database; send the call again later.',
    retryAfter: '60',
  },
  database_locked: { detail: 'The database is busy; send the call again.', retryAfter: '1' },
  database_damaged: CANNOT_BE_USED,
  storage_failed: CANNOT_BE_USED,
  database_sealed: {
    detail:
      'The service has moved to another database, and this host still uses the former one; send the call again later.',
    retryAfter: '60',
  },
  writes_lost: {
    detail:
      'The service stands still, because its database was set back to an earlier state; send the call again later.',
    retryAfter: '60',
  },
  // With a database server, another host may have been upgraded and have migrated the schema while this one still
  // serves.
  schema_newer: {
    detail: 'This host is older than its database; send the call again later.',
    retryAfter: '10',
  },
}

const STATUS_OF: Record<CallProblem | SharedProblem, number> = {
  consent_required: 400,
  user_not_found: 404,
  user_never_linked: 404,
  user_not_linked: 403,
  key_invalid: 401,
  partner_disabled: 403,
  plan_bound_elsewhere: 409,
  plan_cancelled: 409,
  plan_not_found: 404,
  execution_not_found: 404,
  execution_pending: 409,
  execution_recorded: 409,
  execution_cancelled: 409,
  order_id_taken: 409,
  amount_over_reservation: 400,
  webhook_refused: 400,
  database_gone: 503,
  database_locked: 503,
  database_damaged: 503,
  database_sealed: 503,
  writes_lost: 503,
  storage_failed: 503,
  schema_newer: 503,
}

/** The status of a problem. A problem that only a command can meet is a bug here. */
export const statusOf = (code: ProblemCode): number =>
  Object.hasOwn(STATUS_OF, code) ? STATUS_OF[code as keyof typeof STATUS_OF] : 500
