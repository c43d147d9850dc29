// The sandbox over HTTP: a test key moves its own environment through time, fires a tranche at once, and starts over.
// No live key gets this far: each route says that it is for test keys, which is asked before its body is read.

import { z } from 'zod'
import { TRIGGERS } from '../core/execution.ts'
import { type Price, price } from '../core/money.ts'
import type { Caller } from '../core/partner.ts'
import { FILL_PRICE_MAX } from '../core/partner-report.ts'
import { parseSpan } from '../core/time.ts'
import {
  count,
  decimal,
  describe,
  describeAnswer,
  dollars,
  environment,
  executionId,
  FieldError,
  field,
  id,
  instant,
  notText,
  partnerPlanId,
  partnerSlug,
} from './fields.ts'
import { type Route, route } from './route.ts'

const sandboxAnswer = z.object({
  partner_slug: partnerSlug,
  environment,
  now: instant('The time of your test environment.', '2026-01-12T09:30:00.000Z'),
  offset_ms: count('How far it is ahead of real time, in milliseconds.', 604_800_000),
  offset: z.string().meta({
    pattern: '^[0-9a-z ]+$',
    maxLength: 64,
    ...describeAnswer('The same, for a person to read.', '7 d'),
  }),
  advancing_to: instant(
    'Where an advance that is under way is going; null when there is none.',
    '2026-02-04T09:30:00.000Z',
  ).nullable(),
})

const wokenFields = {
  webhooks_sent: count('Wake-ups that were delivered.', 0),
  webhooks_failed: count('Wake-ups that were not.', 0),
}

const advancedAnswer = z.object({
  partner_slug: partnerSlug,
  environment,
  done: z
    .boolean()
    .meta(
      describeAnswer(
        'False when it takes longer than a call should: it goes on, and GET /sandbox shows how far it is. The counts ' +
          'are then absent.',
        true,
      ),
    ),
  from: instant('The time before it.', '2026-01-05T09:30:00.000Z'),
  to: instant('The time after it.', '2026-01-12T09:30:00.000Z'),
  offset_ms: count('How far the clock is then ahead of real time, in milliseconds.', 604_800_000),
  price_usd: dollars('The price meanwhile; null when none is known.', '64000.00').nullable().optional(),
  passes: count('How often the scheduler looked at the plans.', 169).optional(),
  executions_created: count('Tranches that fired.', 42).optional(),
  windows_rolled: count('Windows that ended and were followed by the next.', 7).optional(),
  leases_expired: count('Leases of unconfirmed executions that ended on the way.', 0).optional(),
  webhooks_sent: wokenFields.webhooks_sent.optional(),
  webhooks_failed: wokenFields.webhooks_failed.optional(),
})

const firedAnswer = z.object({
  partner_slug: partnerSlug,
  environment,
  partner_plan_id: partnerPlanId,
  execution_id: executionId,
  amount_usd: dollars('The most to spend on the tranche.'),
  trigger: z.enum(TRIGGERS).meta(describeAnswer('Why it fired.', 'slot_start')),
  tranche_index: count('Its number in the window, from 0 on.', 0),
  ...wokenFields,
})

const wipedAnswer = z.object({
  partner_slug: partnerSlug,
  environment,
  users: count('Users that are gone.'),
  plans: count('Plans that are gone.'),
  windows: count('Windows that are gone.', 7),
  executions: count('Executions that are gone.', 42),
  trades: count('Trades that are gone.', 40),
})

export type SandboxJson = z.output<typeof sandboxAnswer>
export type AdvancedJson = z.output<typeof advancedAnswer>
export type FiredJson = z.output<typeof firedAnswer>
export type WipedJson = z.output<typeof wipedAnswer>

/** What is done in a test environment. Each throws what the store and the engine throw. */
export type SandboxDesk = {
  look: (caller: Caller) => Promise<SandboxJson>
  /** Answers in time, even when the advance takes longer and goes on. */
  advance: (caller: Caller, byMs: number, price: Price | null) => Promise<AdvancedJson>
  fire: (caller: Caller, partnerPlanId: string, price: Price | null) => Promise<FiredJson>
  reset: (caller: Caller) => Promise<WipedJson>
}

const span = field({ type: 'string', pattern: '^[0-9]{1,9}[smhd]$', maxLength: 10 }, (input) => {
  if (typeof input !== 'string') return notText
  return parseSpan(input) ?? new FieldError('value_error', 'Value error, by must be written as in 12h or 30d')
})

const marketPrice = decimal(price, { above: 0n as Price, atMost: FILL_PRICE_MAX })
  .meta(describe('Dollars per bitcoin while it lasts; by default the newest price that is stored.', '64000'))
  .optional()

/** The routes of a service, over its desk. To describe them takes none. */
export function sandboxRoutes(desk: SandboxDesk | null): Route[] {
  const at = (): SandboxDesk => {
    if (!desk) throw new Error('the sandbox of this service is switched off')
    return desk
  }
  return [
    route({
      method: 'GET',
      path: '/partner/v1/sandbox',
      keys: 'test',
      answer: sandboxAnswer,
      handle: ({ tenant }) => at().look(tenant),
    }),
    route({
      method: 'POST',
      path: '/partner/v1/sandbox/advance',
      keys: 'test',
      body: z.object({
        by: span.meta(describe('How far: a whole number and `s`, `m`, `h` or `d`.', '7d')),
        price_usd: marketPrice,
      }),
      answer: advancedAnswer,
      handle: ({ tenant, body }) => at().advance(tenant, body.by, body.price_usd ?? null),
    }),
    route({
      method: 'POST',
      path: '/partner/v1/sandbox/fire',
      keys: 'test',
      body: z.object({
        partner_plan_id: id().meta(describe('The plan whose next tranche is to fire.', 'plan-1')),
        price_usd: marketPrice,
      }),
      answer: firedAnswer,
      handle: ({ tenant, body }) => at().fire(tenant, body.partner_plan_id, body.price_usd ?? null),
    }),
    route({
      method: 'POST',
      path: '/partner/v1/sandbox/reset',
      keys: 'test',
      body: z.object({}),
      answer: wipedAnswer,
      handle: ({ tenant }) => at().reset(tenant),
    }),
  ]
}
