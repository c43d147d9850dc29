// The sandbox over HTTP: a test key moves its own environment through time, fires a tranche at once, and starts over.
// Live keys are refused: the routes are for test keys only, which is checked before the body is read.

import { z } from 'zod'
import { FILL_PRICE_MAX } from '../core/confirmation.ts'
import { type Price, price } from '../core/money.ts'
import type { Caller } from '../core/partner.ts'
import { parseSpan } from '../core/time.ts'
import {
  type AdvancedJson,
  advancedAnswer,
  type FiredJson,
  firedAnswer,
  type SandboxJson,
  sandboxAnswer,
  type WipedJson,
  wipedAnswer,
} from './answer-schemas.ts'
import { decimal, describe, FieldError, field, id, notText } from './fields.ts'
import { type Route, route } from './route.ts'

/** The actions in a test environment. Each throws the problems of the store and the engine. */
export type SandboxDesk = {
  look: (caller: Caller) => Promise<SandboxJson>
  /** Answers in time, even when the advance takes longer and continues. */
  advance: (caller: Caller, byMs: number, price: Price | null) => Promise<AdvancedJson>
  fire: (caller: Caller, partnerPlanId: string, price: Price | null) => Promise<FiredJson>
  reset: (caller: Caller) => Promise<WipedJson>
}

const span = field({ type: 'string', pattern: '^[0-9]{1,9}[smhd]$', maxLength: 10 }, (input) => {
  if (typeof input !== 'string') return notText
  return (
    parseSpan(input) ?? new FieldError('value_error', 'Value error, by must look like 30s, 15m, 12h or 7d')
  )
})

const marketPrice = decimal(price, { above: 0n as Price, atMost: FILL_PRICE_MAX })
  .meta(describe('Dollars per bitcoin while it lasts; by default the newest price that is stored.', '64000'))
  .optional()

/** The routes of a service, over its desk. Describing them needs none. */
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
