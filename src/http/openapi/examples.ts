// Examples of bodies: of requests, each with what it is for, and of answers, composed from the examples of their
// fields.

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
    const nothing = { usd_amount: null, btc_amount: null, execution_price: null, partner_fee_usd: null }
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
