// Examples of bodies: of requests, each with what it is for, of answers, composed from the examples of their fields,
// and of every refusal.

import { formatUsd } from '../../core/money.ts'
import { PLAN_AMOUNT_MIN } from '../../core/plan.ts'
import { tooMuchToWipe } from '../../core/sandbox.ts'
import { NO_EXECUTION, TESTS_PER_MINUTE } from '../../core/webhook.ts'
import type { ErrorCode, ValidationDetail } from '../error-codes.ts'
import { fillBody, noFillBody } from '../executions.ts'
import { PAGE_MAX } from '../fields.ts'
import { BODY_BYTES_MAX } from '../request.ts'

type Json = { [name: string]: unknown }
export type Examples = Record<string, { summary: string; value: unknown }>

const USER = 'user-1'
const PLAN = { partner_user_id: USER, partner_plan_id: 'plan-1', amount_usd: '60.00', frequency: 'daily' }
const BOUGHT = { btc_amount: '0.00015564', execution_price: '64250.50', partner_fee_usd: '0.05' }

/** Of request bodies, by the name of their schema. The contract test sends each of them. */
export const BODY_EXAMPLES: Record<string, Examples> = {
  UserRequest: {
    link: {
      summary: 'Link a user who has consented',
      value: {
        partner_user_id: USER,
        email: 'user@example.com',
        auth_provider: 'apple',
        consent_accepted: true,
        consent_version: '2026-01',
        consent_timestamp: '2026-01-05T09:30:00Z',
      },
    },
    clear: {
      summary: 'Send the user again, without an address',
      value: {
        partner_user_id: USER,
        email: null,
        consent_accepted: true,
        consent_version: '2026-01',
        consent_timestamp: '2026-01-05T09:30:00Z',
      },
    },
  },
  UserStatusRequest: {
    disable: { summary: 'Consent was withdrawn', value: { status: 'disabled' } },
    relink: { summary: 'The user is back', value: { status: 'linked' } },
  },
  PlanRequest: {
    create: {
      summary: 'A plan that buys from a given day on',
      value: { ...PLAN, smart_timing_enabled: true, start_date: '2026-01-05T00:00:00Z', status: 'active' },
    },
    short: { summary: 'Only what is required', value: PLAN },
    pause: { summary: 'Pause it', value: { ...PLAN, status: 'paused' } },
    cancel: { summary: 'Cancel it, forever', value: { ...PLAN, status: 'cancelled' } },
  },
  Confirmation: {
    filled: {
      summary: 'All of it was bought',
      value: {
        partner_order_id: 'order-1',
        status: 'filled',
        executed_at: '2026-01-05T00:00:30Z',
        usd_amount: '10.00',
        ...BOUGHT,
      },
    },
    partial: {
      summary: 'A part of it was bought',
      value: {
        partner_order_id: 'order-1',
        status: 'partial',
        usd_amount: '6.00',
        btc_amount: '0.00009338',
        execution_price: '64250.50',
      },
    },
    failed: {
      summary: 'The venue bought nothing',
      value: { partner_order_id: 'order-1', status: 'failed', failure_reason: 'insufficient funds' },
    },
    cancelled: {
      summary: 'No order was tried',
      value: { partner_order_id: 'order-1', status: 'cancelled' },
    },
  },
  SandboxAdvance: {
    week: { summary: 'A week at a given price', value: { by: '7d', price_usd: '64000' } },
    lease: { summary: 'Until a lease has ended', value: { by: '5m' } },
  },
  SandboxFire: { now: { summary: 'Whatever comes next', value: { partner_plan_id: 'plan-1' } } },
  SandboxReset: { all: { summary: 'Nothing to choose', value: {} } },
  WebhookTest: { all: { summary: 'Nothing to choose', value: {} } },
  WebhookRequest: {
    register: {
      summary: 'An address of your own',
      value: { url: 'https://partner.example/tranche' },
    },
  },
}

/** Of the answers that depend on what was sent, or whose fields go together: what differs from the fields' examples. */
const ANSWERS: Record<string, (usual: Json, whole: Json) => Examples> = {
  UserChanged: (usual, whole) => ({
    disabled: { summary: 'After a disable', value: { ...whole, status: 'disabled' } },
    relinked: { summary: 'After a re-link', value: usual },
  }),
  Confirmed: (usual, whole) => ({
    recorded: { summary: 'Recorded now', value: usual },
    replayed: { summary: 'Recorded before', value: whole },
  }),
  Trades: (usual) => {
    const [trade] = usual.trades as Json[]
    const ofFills = Object.keys(fillBody.shape).filter((name) => !(name in noFillBody.shape))
    const nothing = Object.fromEntries(ofFills.map((name) => [name, null]))
    const failed = { ...trade, partner_order_id: 'order-2', status: 'failed', ...nothing, executed_at: null }
    return {
      page: {
        summary: 'A purchase, and one that failed',
        value: { ...usual, trades: [{ ...trade, failure_reason: null }, failed] },
      },
    }
  },
  WebhookRegistered: (usual) => ({
    registered: {
      summary: 'A new one',
      value: { ...usual, last_delivered_at: null, last_status_code: null },
    },
  }),
  Webhook: (usual, whole) => ({
    registered: { summary: 'All is well', value: usual },
    failed: {
      summary: 'A delivery has failed',
      value: { ...whole, last_status_code: 503, consecutive_failures: 1 },
    },
    none: { summary: 'None is registered', value: withoutWebhook(usual) },
  }),
  Deliveries: (usual) => {
    const [taken] = usual.deliveries as Json[]
    const failed = { ...taken, delivered: false, status_code: 503 }
    return {
      newest: {
        summary: 'One that was delivered, after one that was not',
        value: { ...usual, deliveries: [{ ...taken, failure_reason: null }, failed] },
      },
    }
  },
  WebhookTested: (usual) => {
    const test = { ...usual, test: true, count: 0, earliest_execution_id: NO_EXECUTION }
    return {
      delivered: { summary: 'The receiver answers', value: { ...test, failure_reason: null } },
      failed: { summary: 'It does not', value: { ...test, delivered: false, status_code: 503 } },
    }
  },
  Sandbox: (usual) => ({
    still: { summary: 'No advance is under way', value: { ...usual, advancing_to: null } },
  }),
  SandboxAdvanced: (usual, whole) => ({
    done: { summary: 'It is done', value: whole },
    underWay: { summary: 'It goes on', value: { ...usual, done: false } },
  }),
  MonthlyStatement: (usual) => ({
    month: { summary: 'A month that is not over', value: { ...usual, environment: 'live' } },
  }),
  MonthlyUsers: (usual) => ({
    page: { summary: 'The first page', value: { ...usual, environment: 'live' } },
  }),
}

function withoutWebhook({ partner_slug, environment, ...webhook }: Json): Json {
  const none = Object.fromEntries(Object.keys(webhook).map((name) => [name, null]))
  return { partner_slug, environment, ...none }
}

/** Of an answer, by the name of its schema: by default as the examples of its fields make it. */
export function answerExamples(name: string, schema: Json): Examples {
  const usual = composed(schema, false)
  const own = ANSWERS[name]?.(usual as Json, composed(schema, true) as Json)
  return own ?? { usual: { summary: 'As it usually is', value: usual } }
}

/** `whole` is with its optional fields. */
function composed(schema: Json, whole: boolean): unknown {
  const [given] = (schema.examples ?? []) as unknown[]
  if (given !== undefined) return given
  const [inner] = (schema.anyOf ?? []) as Json[]
  if (inner) return composed(inner, whole)
  if (schema.type === 'array') return [composed(schema.items as Json, whole)]
  const required = (schema.required ?? []) as string[]
  const fields = Object.entries(schema.properties as Record<string, Json>)
  const shown = fields.filter(([name]) => whole || required.includes(name))
  return Object.fromEntries(shown.map(([name, field]) => [name, composed(field, whole)]))
}

// Every refusal that the API documents, each with its body. The contract test provokes and compares each of them, so
// that they match what is really answered.

export type RefusalExample = {
  code: ErrorCode
  /** Unique among the refusals of one operation. */
  name: string
  summary: string
  detail: string | ValidationDetail[]
}

const EXECUTION = 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d'

const refusal = (
  code: ErrorCode,
  name: string,
  summary: string,
  detail: string | ValidationDetail[],
): RefusalExample => ({ code, name, summary, detail })

const wrong = (type: string, loc: (string | number)[], msg: string): ValidationDetail => ({ type, loc, msg })
const missing = (field: string) => wrong('missing', ['body', field], 'Field required')

/** What any call may be answered. */
export const ANY_REFUSAL: readonly RefusalExample[] = [
  refusal(
    'key_malformed',
    'malformed',
    'No header, or not of this form',
    'Expected Authorization: Bearer <key>',
  ),
  refusal('key_invalid', 'invalid', 'An unknown, expired or revoked key', 'Invalid API key.'),
  refusal(
    'partner_disabled',
    'partner_disabled',
    'The operator has disabled the partner',
    'Partner is not active.',
  ),
  refusal('rate_limited', 'throttled', 'Wait as long as Retry-After says', 'Too many requests.'),
  refusal(
    'internal_error',
    'unexpected',
    'Retry if that is safe, then ask the operator',
    'Internal Server Error',
  ),
  refusal('starting', 'starting', 'The database is being opened', 'The database is being opened; try again.'),
]

/** What any call with a body may be answered. */
export const BODY_REFUSALS: readonly RefusalExample[] = [
  refusal('body_not_utf8', 'not_utf8', 'The body is not text', 'Request body is not valid UTF-8.'),
  refusal(
    'body_too_large',
    'too_large',
    `The limit is ${BODY_BYTES_MAX / 1024} KiB`,
    `Request body is larger than ${BODY_BYTES_MAX} bytes.`,
  ),
  refusal(
    'body_encoded',
    'encoded',
    'The body is compressed',
    'Content-Encoding is not supported: send the body uncompressed.',
  ),
  refusal('validation_failed', 'not_json', 'The body is not JSON; loc has the offset where it breaks', [
    wrong('json_invalid', ['body', 1], 'JSON decode error'),
  ]),
  refusal('validation_failed', 'no_body', 'The body is empty', [
    wrong('missing', ['body'], 'Field required'),
  ]),
  refusal('validation_failed', 'not_an_object', 'The body is JSON, but not an object', [
    wrong(
      'model_attributes_type',
      ['body'],
      'Input should be a valid dictionary or object to extract fields from',
    ),
  ]),
]

export const USER_REFUSALS = {
  link: [
    refusal('consent_required', 'consent_required', 'consent_accepted is false', 'User consent is required.'),
    refusal('validation_failed', 'invalid_fields', 'Every wrong field at once', [
      missing('partner_user_id'),
      wrong('bool_type', ['body', 'consent_accepted'], 'Input should be a valid boolean'),
    ]),
  ],
  missing: [
    refusal('user_not_found', 'unknown_user', 'No such user in this environment', 'Partner user not found.'),
  ],
  change: [
    refusal('validation_failed', 'unknown_status', 'An unknown status', [
      wrong('literal_error', ['body', 'status'], "Input should be 'disabled' or 'linked'"),
    ]),
  ],
} as const

export const PLAN_REFUSALS: readonly RefusalExample[] = [
  refusal(
    'user_disabled',
    'user_disabled',
    'The user must be linked again first; until then a plan can only be cancelled',
    'Partner user is not active (disabled).',
  ),
  refusal(
    'user_never_linked',
    'user_never_linked',
    'POST /users first',
    'Partner user not found; create and link the user first.',
  ),
  refusal(
    'plan_bound_elsewhere',
    'bound_elsewhere',
    'The plan id belongs to another user',
    'partner_plan_id plan-1 exists under a different partner_user_id; cancel it and create a new plan.',
  ),
  refusal(
    'plan_cancelled',
    'cancelled',
    'A cancelled plan is sent as active or paused',
    'Plan plan-1 is cancelled; a cancelled plan cannot be reactivated, a new partner_plan_id is needed.',
  ),
  refusal('validation_failed', 'invalid_fields', 'Every wrong field at once', [
    wrong(
      'greater_than_equal',
      ['body', 'amount_usd'],
      `Input should be greater than or equal to ${formatUsd(PLAN_AMOUNT_MIN)}`,
    ),
    wrong('literal_error', ['body', 'frequency'], "Input should be 'daily', 'weekly' or 'bi-weekly'"),
  ]),
]

export const MISSING_PLAN: readonly RefusalExample[] = [
  refusal('plan_not_found', 'unknown_plan', 'No such plan in this environment', 'Plan not found.'),
]

export const MISSING_EXECUTION: readonly RefusalExample[] = [
  refusal(
    'execution_not_found',
    'unknown_execution',
    'No such execution in this environment',
    'Execution not found.',
  ),
]

export const CONFIRM_REFUSALS: readonly RefusalExample[] = [
  refusal(
    'amount_over_reservation',
    'over_reservation',
    'More was spent than the execution reserved',
    'usd_amount exceeds the reserved amount: reserved 10.00, received 10.01.',
  ),
  refusal(
    'execution_pending',
    'pending',
    'It has not been delivered yet; a reported fill is kept',
    'Execution cannot be confirmed while pending; poll due first; a purchase is kept as a late fill.',
  ),
  refusal(
    'execution_recorded',
    'recorded',
    'Another report is recorded',
    'Execution already confirmed with status filled and partner_order_id order-1; ' +
      'it cannot be re-confirmed with different values.',
  ),
  refusal(
    'order_id_taken',
    'order_id_taken',
    'The order belongs to another execution',
    `partner_order_id order-1 is already recorded for execution ${EXECUTION}.`,
  ),
  refusal(
    'execution_cancelled',
    'cancelled',
    'Its plan was cancelled or its user disabled; the report is kept',
    `Execution ${EXECUTION} was cancelled before it was confirmed; ` +
      'a reported fill is kept for the operator to decide on.',
  ),
  refusal('validation_failed', 'missing_fields', 'A fill without its amounts', [
    missing('usd_amount'),
    missing('btc_amount'),
    missing('execution_price'),
  ]),
]

export const WEBHOOK_REFUSALS: readonly RefusalExample[] = [
  refusal(
    'webhook_refused',
    'refused_address',
    'The host does not resolve, or to an address that is not public',
    'Webhook URL is refused: 10.0.0.1 is not on the public internet (private).',
  ),
  refusal('validation_failed', 'not_https', 'Only https is called', [
    wrong('url_scheme', ['body', 'url'], "URL scheme should be 'https'"),
  ]),
]

export const TEST_REFUSALS: readonly RefusalExample[] = [
  refusal('webhook_not_found', 'no_webhook', 'POST /webhooks first', 'No webhook is registered.'),
  refusal(
    'rate_limited',
    'tests_throttled',
    'Wait as long as Retry-After says',
    `At most ${TESTS_PER_MINUTE} tests of a webhook a minute.`,
  ),
  refusal(
    'too_many_calls',
    'test_under_way',
    'One at a time; it ends within ten seconds',
    'A test of this webhook is under way.',
  ),
]

/** What any call of the sandbox may be answered. */
export const SANDBOX_REFUSAL: readonly RefusalExample[] = [
  refusal(
    'test_key_required',
    'live_key',
    'The key is a live one',
    'Only a test environment has a sandbox; send a test key.',
  ),
  refusal('route_not_found', 'switched_off', 'The operator has switched these routes off', 'Not Found'),
]

const TOO_MANY_WAKE_UPS = refusal(
  'rate_limited',
  'too_many_wake_ups',
  'Each wakes your webhook; wait as long as Retry-After says',
  'At most 60 calls a minute fire tranches where a webhook is active.',
)

export const SANDBOX_REFUSALS = {
  advance: [
    refusal(
      'sandbox_refused',
      'too_far',
      'The clock may be ten years ahead, and no more',
      'A sandbox goes at most 3650 days ahead; this one is 0 days ahead already.',
    ),
    refusal(
      'sandbox_busy',
      'under_way',
      'One sandbox moves at a time; GET /sandbox says whether it is yours',
      'Another advance is running: wait until it ends.',
    ),
    refusal('validation_failed', 'bad_span', 'Not a whole number and a unit', [
      wrong('value_error', ['body', 'by'], 'Value error, by must be written as in 12h or 30d'),
    ]),
    TOO_MANY_WAKE_UPS,
  ],
  fire: [
    refusal('plan_not_found', 'unknown_plan', 'No such plan in this environment', 'Plan not found.'),
    refusal(
      'sandbox_refused',
      'nothing_to_fire',
      'The plan is paused, or has nothing left to buy with',
      'Plan plan-1 fires nothing: it is not active, its smart timing is off, or its partner is disabled or held.',
    ),
    TOO_MANY_WAKE_UPS,
  ],
  reset: [
    refusal(
      'sandbox_refused',
      'too_large',
      'The environment is too large to be wiped while others wait',
      tooMuchToWipe('acme').message,
    ),
  ],
} as const

export const QUERY_REFUSALS = {
  since: [
    refusal('validation_failed', 'bad_since', 'Not an instant, or one without its offset', [
      wrong('timezone_aware', ['query', 'since'], 'Input should have timezone info'),
    ]),
  ],
  month: [
    refusal('validation_failed', 'bad_month', 'No month, or not written YYYY-MM', [
      wrong('value_error', ['query', 'month'], 'Value error, month must be written YYYY-MM'),
    ]),
  ],
  page: [
    refusal('validation_failed', 'bad_limit', `The limit is 1 to ${PAGE_MAX}`, [
      wrong('less_than_equal', ['query', 'limit'], `Input should be less than or equal to ${PAGE_MAX}`),
    ]),
    refusal('validation_failed', 'bad_cursor', 'Not a next_cursor of a page', [
      wrong('value_error', ['query', 'cursor'], 'Value error, cursor must be the next_cursor of a page'),
    ]),
  ],
} as const
