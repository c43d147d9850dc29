// The whole route table of the partner API.

import { getMonthly, getMonthlyUsers } from './billing.ts'
import { postConfirm } from './confirm.ts'
import { getExecutions } from './executions.ts'
import { getMe } from './me.ts'
import { getPlan, getPlans, postPlan } from './plans.ts'
import { getDue } from './poll.ts'
import type { Route } from './route.ts'
import { getTrades } from './trades.ts'
import { patchUser, postUser } from './users.ts'
import { deleteWebhook, getWebhook, postWebhook } from './webhooks.ts'

/** Every route of the partner API, in the order of its description. */
export const ROUTES: readonly Route[] = [
  getMe,
  postUser,
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
  getMonthly,
  getMonthlyUsers,
]
