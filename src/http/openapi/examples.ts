// Examples: of request bodies, each with its purpose; of answers, composed from the examples of their fields; and of
// every refusal.

import { formatUsd } from '../../core/money.ts'
import { PLAN_AMOUNT_MIN } from '../../core/plan.ts'
import { advanceUnderWay, planFiresNothing, sandboxFull, tooMuchToWipe } from '../../core/sandbox.ts'
import { NO_EXECUTION } from '../../core/webhook.ts'
import type { ErrorCode, ValidationDetail } from '../error-codes.ts'
import { fillBody, noFillBody } from '../executions.ts'
import { PAGE_MAX } from '../fields.ts'
import { BODY_BYTES_MAX } from '../request.ts'

type Json = { [name: string]: unknown }
export type Examples = Record<string, { summary: string; value: unknown }>

const USER = 'user-1'
const CONSENT = {
  consent_accepted: true,
  consent_version: '2026-01',
  consent_timestamp: '2026-01-05T09:30:00Z',
}
const PLAN = { partner_user_id: USER, partner_plan_id: 'plan-1', amount_usd: '60.00', frequency: 'daily' }
const BOUGHT = { btc_amount: '0.00015564', execution_price: '64250.50', partner_fee_usd: '0.05' }

/** The examples of request bodies, by the name of their schema. The contract test sends each of them. */
export const BODY_EXAMPLES: Record<string, Examples> = {
  UserRequest: {
    link: {
      summary: 'Link a user who has consented',
      value: {
        partner_user_id: USER,
        email: 'user@example.com',
        auth_provider: 'apple',
        ...CONSENT,
      },
    },
    clear: {
      summary: 'Send the user again, without an address',
      value: { partner_user_id: USER, email: null, ...CONSENT },
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
    register: { summary: 'An address of your own', value: { url: 'https://partner.example/tranche' } },
  },
}

/** Answers that depend on the request, or whose fields belong together: how they differ from the usual one. */
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
    none: { summary: 'No webhook is registered', value: withoutWebhook(usual) },
  }),
  Deliveries: (usual) => {
    const [taken] = usual.deliveries as Json[]
    const failed = { ...taken, delivered: false, status_code: 503 }
    return {
      newest: {
        summary: 'A delivery that succeeded, after one that failed',
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
    underWay: { summary: 'Still under way', value: { ...usual, done: false } },
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

/** The examples of an answer, by the name of its schema: by default, composed of the examples of its fields. */
export function answerExamples(name: string, schema: Json): Examples {
  const usual = composed(schema, false)
  const special = ANSWERS[name]?.(usual as Json, composed(schema, true) as Json)
  return special ?? { usual: { summary: 'A typical answer', value: usual } }
}

/** An example composed of the fields' examples; `whole` includes the optional fields. */
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

// Every refusal that the description documents, by its code: an example of its body, from which the example of its
// header follows. The contract test provokes each of them at each operation, so that they match the real answers.

type Detail = string | ValidationDetail[]
/** `at`, by operation id: the details that replace `detail` there. */
type RefusalExample = { summary: string; detail: Detail; at?: Record<string, Detail> }

const EXECUTION = 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d'

const wrong = (type: string, loc: string[], msg: string): ValidationDetail => ({ type, loc, msg })
const missing = (...field: string[]) => wrong('missing', ['body', ...field], 'Field required')

const badLimit = [
  wrong('less_than_equal', ['query', 'limit'], `Input should be less than or equal to ${PAGE_MAX}`),
]
const badMonth = [wrong('value_error', ['query', 'month'], 'Value error, month must be written YYYY-MM')]

export const REFUSALS = {
  consent_required: { summary: 'consent_accepted is false', detail: 'User consent is required.' },
  amount_over_reservation: {
    summary: 'More was spent than the execution reserved',
    detail: 'usd_amount exceeds the reserved amount: reserved 10.00, received 10.01.',
  },
  webhook_refused: {
    summary: 'The host does not resolve, or to an address that is not public',
    detail: 'Webhook URL is refused: 10.0.0.1 is not on the public internet (private).',
  },
  user_disabled: {
    summary: 'The user must be linked again first; until then a plan can only be cancelled',
    detail: 'Partner user is not active (disabled).',
  },
  test_key_required: {
    summary: 'The key is a live one',
    detail: 'Only a test environment has a sandbox; send a test key.',
  },
  route_not_found: { summary: 'The operator has switched these routes off', detail: 'Not Found' },
  user_not_found: { summary: 'No such user in this environment', detail: 'Partner user not found.' },
  user_never_linked: {
    summary: 'POST /users first',
    detail: 'Partner user not found; create and link the user first.',
  },
  plan_not_found: { summary: 'No such plan in this environment', detail: 'Plan not found.' },
  execution_not_found: { summary: 'No such execution in this environment', detail: 'Execution not found.' },
  webhook_not_found: { summary: 'POST /webhooks first', detail: 'No webhook is registered.' },
  plan_bound_elsewhere: {
    summary: 'The plan id belongs to another user',
    detail:
      'partner_plan_id plan-1 exists under a different partner_user_id; cancel it and create a new plan.',
  },
  plan_cancelled: {
    summary: 'A cancelled plan is sent as active or paused',
    detail:
      'Plan plan-1 is cancelled; a cancelled plan cannot be reactivated, a new partner_plan_id is needed.',
  },
  execution_pending: {
    summary: 'It has not been delivered yet; a reported fill is kept',
    detail: 'Execution cannot be confirmed while pending; poll due first; a purchase is kept as a late fill.',
  },
  execution_recorded: {
    summary: 'Another report is recorded',
    detail:
      'Execution already confirmed with status filled and partner_order_id order-1; ' +
      'it cannot be re-confirmed with different values.',
  },
  execution_cancelled: {
    summary: 'Its plan was cancelled or its user disabled; the report is kept',
    detail:
      `Execution ${EXECUTION} was cancelled before it was confirmed; ` +
      'a reported fill is kept for the operator to decide on.',
  },
  order_id_taken: {
    summary: 'The order belongs to another execution',
    detail: `partner_order_id order-1 is already recorded for execution ${EXECUTION}.`,
  },
  sandbox_refused: {
    summary: 'The sandbox cannot do that as it is',
    detail: 'A sandbox goes as far as 9000-01-01; this one is at 8999-12-20 already.',
    at: {
      fireSandboxTranche: planFiresNothing('plan-1').message,
      resetSandbox: tooMuchToWipe('acme').message,
    },
  },
  sandbox_busy: {
    summary: 'Your sandbox is moving; GET /sandbox says where to',
    detail: advanceUnderWay().message,
  },
  sandbox_full: {
    summary: 'It holds as many executions as it may',
    detail: sandboxFull().message,
  },
  too_many_calls: {
    summary: 'One at a time; it ends within ten seconds',
    detail: 'A test of this webhook is under way.',
  },
  validation_failed: {
    summary: 'Every wrong field at once',
    detail: [missing()],
    at: {
      linkUser: [
        missing('partner_user_id'),
        wrong('bool_type', ['body', 'consent_accepted'], 'Input should be a valid boolean'),
      ],
      setUserStatus: [wrong('literal_error', ['body', 'status'], "Input should be 'disabled' or 'linked'")],
      putPlan: [
        wrong(
          'greater_than_equal',
          ['body', 'amount_usd'],
          `Input should be greater than or equal to ${formatUsd(PLAN_AMOUNT_MIN)}`,
        ),
        wrong('literal_error', ['body', 'frequency'], "Input should be 'daily', 'weekly' or 'bi-weekly'"),
      ],
      confirmExecution: ['usd_amount', 'btc_amount', 'execution_price'].map((field) => missing(field)),
      registerWebhook: [wrong('url_scheme', ['body', 'url'], "URL scheme should be 'https'")],
      advanceSandbox: [
        wrong('value_error', ['body', 'by'], 'Value error, by must look like 30s, 15m, 12h or 7d'),
      ],
      listUsers: badLimit,
      listPlans: badLimit,
      listExecutions: badLimit,
      listTrades: badMonth,
      getMonthlyStatement: badMonth,
      listMonthlyUsers: badMonth,
    },
  },
  body_not_utf8: { summary: 'The body is not text', detail: 'Request body is not valid UTF-8.' },
  body_too_large: {
    summary: `The limit is ${BODY_BYTES_MAX / 1024} KiB`,
    detail: `Request body is larger than ${BODY_BYTES_MAX} bytes.`,
  },
  body_encoded: {
    summary: 'The body is compressed',
    detail: 'Content-Encoding is not supported: send the body uncompressed.',
  },
  key_malformed: {
    summary: 'No header, or not of this form',
    detail: 'Expected Authorization: Bearer <key>',
  },
  key_invalid: { summary: 'An unknown, expired or revoked key', detail: 'Invalid API key.' },
  partner_disabled: { summary: 'The operator has disabled the partner', detail: 'Partner is not active.' },
  rate_limited: { summary: 'Wait as long as Retry-After says', detail: 'Too many requests.' },
  internal_error: {
    summary: 'Retry if that is safe, then ask the operator',
    detail: 'Internal Server Error',
  },
  starting: { summary: 'The database is being opened', detail: 'The database is being opened; try again.' },
} satisfies Partial<Record<ErrorCode, RefusalExample>>

export type RefusalCode = keyof typeof REFUSALS

export function refusalExample(
  code: RefusalCode,
  operationId: string,
): { summary: string; value: { detail: Detail } } {
  const { summary, detail, at }: RefusalExample = REFUSALS[code]
  return { summary, value: { detail: at?.[operationId] ?? detail } }
}

/** The refusals possible for any call, and for any call with a body. */
export const ANY_REFUSAL: readonly RefusalCode[] = [
  'key_malformed',
  'key_invalid',
  'partner_disabled',
  'rate_limited',
  'internal_error',
  'starting',
]
export const BODY_REFUSALS: readonly RefusalCode[] = [
  'body_not_utf8',
  'body_too_large',
  'body_encoded',
  'validation_failed',
]
