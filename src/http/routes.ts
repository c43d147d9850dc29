// The whole route table of the partner API.

import { getMonthly, getMonthlyUsers, getTrades } from './billing.ts'
import { getDue, getExecutions, postConfirm } from './executions.ts'
import { getPlan, getPlans, postPlan } from './plans.ts'
import type { Route } from './route.ts'
import { sandboxRoutes } from './sandbox.ts'
import { getMe, getUser, getUsers, patchUser, postUser } from './users.ts'
import { deleteWebhook, getDeliveries, getWebhook, postTest, postWebhook } from './webhooks.ts'

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
