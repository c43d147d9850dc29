// The whole route table of the partner API.

import { getMonthly, getMonthlyUsers } from './billing.ts'
import { getDue, postConfirm } from './executions.ts'
import { getMe } from './me.ts'
import { postPlan } from './plans.ts'
import type { Route } from './route.ts'
import { patchUser, postUser } from './users.ts'
import { deleteWebhook, getWebhook, postWebhook } from './webhooks.ts'

/** Every route of the partner API, in the order of its description. */
export const ROUTES: readonly Route[] = [
  getMe,
  postUser,
  patchUser,
  postPlan,
  getDue,
  postConfirm,
  postWebhook,
  getWebhook,
  deleteWebhook,
  getMonthly,
  getMonthlyUsers,
]
