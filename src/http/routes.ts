// The whole route table of the partner API, and GET /me, which is about no noun but the key of the call.

import { meAnswer } from './answer-schemas.ts'
import { getMonthly, getMonthlyUsers, getTrades } from './billing.ts'
import { getDue, getExecutions, postConfirm } from './executions.ts'
import { getPlan, getPlans, postPlan } from './plans.ts'
import { type Route, route } from './route.ts'
import { sandboxRoutes } from './sandbox.ts'
import { getUser, getUsers, patchUser, postUser } from './users.ts'
import { deleteWebhook, getDeliveries, getWebhook, postTest, postWebhook } from './webhooks.ts'

/** The partner and the environment of a key. */
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
