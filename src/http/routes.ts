// The route table of the partner API, and GET /me, which is about the key of the call.

import { z } from 'zod'
import type { PartnerStatus } from '../core/partner.ts'
import { TEXT_MAX } from '../core/text.ts'
import { getMonthly, getMonthlyUsers, getTrades } from './billing.ts'
import { Refusal } from './error-codes.ts'
import { getDue, getExecutions, postConfirm } from './executions.ts'
import { choice, prose, tenantFields } from './fields.ts'
import { getPlan, getPlans, postPlan } from './plans.ts'
import { type Route, route } from './route.ts'
import { type SandboxDesk, sandboxRoutes } from './sandbox.ts'
import { getUser, getUsers, patchUser, postUser } from './users.ts'
import { deleteWebhook, getDeliveries, getWebhook, postTest, postWebhook } from './webhooks.ts'

const PARTNER_STATUSES = ['active', 'disabled'] as const satisfies readonly PartnerStatus[]

const meAnswer = z.object({
  partner_slug: tenantFields.partner_slug,
  partner_name: prose('Its name as shown.', 'Acme Exchange', TEXT_MAX),
  status: choice(PARTNER_STATUSES, 'A disabled partner is answered 403 instead.', 'active'),
  environment: tenantFields.environment,
})

const getMe = route({
  method: 'GET',
  path: '/partner/v1/me',
  answer: meAnswer,
  handle: async ({ caller }) => ({
    partner_slug: caller.key.tenant.partnerSlug,
    partner_name: caller.partnerName,
    status: caller.partnerStatus,
    environment: caller.key.tenant.environment,
  }),
})

/** Every route of the partner API, in the order of its description. */
export const ROUTES: readonly Route[] = [
  getMe,
  postUser,
  getUsers,
  getUser,
  patchUser,
  postPlan,
  getPlans,
  getPlan,
  getDue,
  postConfirm,
  getExecutions,
  getTrades,
  postWebhook,
  getWebhook,
  deleteWebhook,
  getDeliveries,
  postTest,
  getMonthly,
  getMonthlyUsers,
  ...sandboxRoutes(null),
]

/** The routes of the table, those of the sandbox included if there is a desk. */
export const routesOver = (desk: SandboxDesk | null): Route[] => [
  ...ROUTES.filter(({ keys }) => keys === 'all'),
  ...(desk ? sandboxRoutes(desk) : []),
]

/** The route of a path for a method. Throws a Refusal: 404 without any route, 405 without that method. */
export function routeFor(method: string, routes: readonly Route[]): Route {
  if (routes.length === 0) throw new Refusal('route_not_found', 'Not Found')
  const route = routes.find((candidate) => candidate.method === method)
  if (route) return route
  throw new Refusal('method_not_allowed', 'Method Not Allowed', {
    allow: routes.map(({ method }) => method).join(', '),
  })
}

/** Ids may contain any character, so a segment is decoded after routing; a badly encoded one matches nothing. */
export function decodeParams(params: Record<string, string>): Record<string, string> {
  try {
    return Object.fromEntries(Object.entries(params).map(([name, text]) => [name, decodeURIComponent(text)]))
  } catch {
    throw new Refusal('route_not_found', 'Not Found')
  }
}
