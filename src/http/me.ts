// GET /me: whose key it is.

import { meAnswer } from './answers/schemas.ts'
import { route } from './route.ts'

export const getMe = route({
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
