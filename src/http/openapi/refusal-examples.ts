// Every refusal that the API documents, each with its body. The contract test provokes and compares each of them, so
// that they match what is really answered.

import { formatUsd } from '../../core/money.ts'
import { PLAN_AMOUNT_MIN } from '../../core/plan.ts'
import { BODY_BYTES_MAX } from '../body-and-query.ts'
import { PAGE_MAX } from '../paging.ts'
import type { ValidationDetail } from '../refusal.ts'

export type RefusalExample = {
  status: number
  /** Unique among the refusals of one operation. */
  name: string
  summary: string
  detail: string | ValidationDetail[]
}

const EXECUTION = 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d'

const refusal = (
  status: number,
  name: string,
  summary: string,
  detail: string | ValidationDetail[],
): RefusalExample => ({ status, name, summary, detail })

const wrong = (type: string, loc: (string | number)[], msg: string): ValidationDetail => ({ type, loc, msg })
const missing = (field: string) => wrong('missing', ['body', field], 'Field required')

/** What any call may be answered. */
export const ANY_REFUSAL: readonly RefusalExample[] = [
  refusal(401, 'malformed', 'No header, or not of this form', 'Expected Authorization: Bearer <key>'),
  refusal(401, 'invalid', 'An unknown, expired or revoked key', 'Invalid API key.'),
  refusal(403, 'partner_disabled', 'The operator has disabled the partner', 'Partner is not active.'),
  refusal(429, 'throttled', 'Wait as long as Retry-After says', 'Too many requests.'),
  refusal(500, 'unexpected', 'Retry if that is safe, then ask the operator', 'Internal Server Error'),
  refusal(503, 'starting', 'The database is being opened', 'The database is being opened; try again.'),
]

/** What any call with a body may be answered. */
export const BODY_REFUSALS: readonly RefusalExample[] = [
  refusal(400, 'not_utf8', 'The body is not text', 'Request body is not valid UTF-8.'),
  refusal(
    413,
    'too_large',
    `The limit is ${BODY_BYTES_MAX / 1024} KiB`,
    `Request body is larger than ${BODY_BYTES_MAX} bytes.`,
  ),
  refusal(
    415,
    'encoded',
    'The body is compressed',
    'Content-Encoding is not supported: send the body uncompressed.',
  ),
  refusal(422, 'not_json', 'loc has the offset where it breaks', [
    wrong('json_invalid', ['body', 1], 'JSON decode error'),
  ]),
  refusal(422, 'no_body', 'The body is empty', [wrong('missing', ['body'], 'Field required')]),
  refusal(422, 'not_an_object', 'The body is JSON, but not an object', [
    wrong(
      'model_attributes_type',
      ['body'],
      'Input should be a valid dictionary or object to extract fields from',
    ),
  ]),
]

export const USER_REFUSALS = {
  link: [
    refusal(400, 'consent_required', 'consent_accepted is false', 'User consent is required.'),
    refusal(422, 'invalid_fields', 'Every wrong field at once', [
      missing('partner_user_id'),
      wrong('bool_type', ['body', 'consent_accepted'], 'Input should be a valid boolean'),
    ]),
  ],
  change: [
    refusal(404, 'unknown_user', 'No such user in this environment', 'Partner user not found.'),
    refusal(422, 'unknown_status', 'An unknown status', [
      wrong('literal_error', ['body', 'status'], "Input should be 'disabled' or 'linked'"),
    ]),
  ],
} as const

export const PLAN_REFUSALS: readonly RefusalExample[] = [
  refusal(
    403,
    'user_disabled',
    'The user must be linked again first; until then a plan can only be cancelled',
    'Partner user is not active (disabled).',
  ),
  refusal(
    404,
    'user_never_linked',
    'POST /users first',
    'Partner user not found; create and link the user first.',
  ),
  refusal(
    409,
    'bound_elsewhere',
    'The plan id belongs to another user',
    'partner_plan_id plan-1 exists under a different partner_user_id; cancel it and create a new plan.',
  ),
  refusal(
    409,
    'cancelled',
    'A cancelled plan is sent as active or paused',
    'Plan plan-1 is cancelled; a cancelled plan cannot be reactivated, a new partner_plan_id is needed.',
  ),
  refusal(422, 'invalid_fields', 'Every wrong field at once', [
    wrong(
      'greater_than_equal',
      ['body', 'amount_usd'],
      `Input should be greater than or equal to ${formatUsd(PLAN_AMOUNT_MIN)}`,
    ),
    wrong('literal_error', ['body', 'frequency'], "Input should be 'daily', 'weekly' or 'bi-weekly'"),
  ]),
]

export const MISSING_PLAN: readonly RefusalExample[] = [
  refusal(404, 'unknown_plan', 'No such plan in this environment', 'Plan not found.'),
]

export const MISSING_EXECUTION: readonly RefusalExample[] = [
  refusal(404, 'unknown_execution', 'No such execution in this environment', 'Execution not found.'),
]

export const CONFIRM_REFUSALS: readonly RefusalExample[] = [
  refusal(
    400,
    'over_reservation',
    'More was spent than the execution reserved',
    'usd_amount exceeds the reserved amount: reserved 10.00, received 10.01.',
  ),
  refusal(
    409,
    'pending',
    'It has not been handed out yet; a reported fill is kept',
    'Execution cannot be confirmed while pending; poll due first; a purchase is kept as a late fill.',
  ),
  refusal(
    409,
    'recorded',
    'Another report is recorded',
    'Execution already confirmed with status filled and partner_order_id order-1; ' +
      'it cannot be re-confirmed with different values.',
  ),
  refusal(
    409,
    'order_id_taken',
    'The order belongs to another execution',
    `partner_order_id order-1 is already recorded for execution ${EXECUTION}.`,
  ),
  refusal(
    409,
    'cancelled',
    'Its plan was cancelled or its user disabled; the report is kept',
    `Execution ${EXECUTION} was cancelled before it was confirmed; ` +
      'a reported fill is kept for the operator to decide on.',
  ),
  refusal(422, 'missing_fields', 'A fill without its amounts', [
    missing('usd_amount'),
    missing('btc_amount'),
    missing('execution_price'),
  ]),
]

export const WEBHOOK_REFUSALS: readonly RefusalExample[] = [
  refusal(
    400,
    'refused_address',
    'The host does not resolve, or to an address that is not public',
    'Webhook URL is refused: 10.0.0.1 is not on the public internet (private).',
  ),
  refusal(422, 'not_https', 'Only https is called', [
    wrong('url_scheme', ['body', 'url'], "URL scheme should be 'https'"),
  ]),
]

export const QUERY_REFUSALS = {
  since: [
    refusal(422, 'bad_since', 'Not an instant, or one without its offset', [
      wrong('timezone_aware', ['query', 'since'], 'Input should have timezone info'),
    ]),
  ],
  month: [
    refusal(422, 'bad_month', 'No month, or not written YYYY-MM', [
      wrong('value_error', ['query', 'month'], 'Value error, month must be written YYYY-MM'),
    ]),
  ],
  page: [
    refusal(422, 'bad_limit', `The limit is 1 to ${PAGE_MAX}`, [
      wrong('less_than_equal', ['query', 'limit'], `Input should be less than or equal to ${PAGE_MAX}`),
    ]),
    refusal(422, 'bad_cursor', 'Not a next_cursor of a page', [
      wrong('value_error', ['query', 'cursor'], 'Value error, cursor is not one of a page'),
    ]),
  ],
} as const
