import { route } from './route.ts'

export const getMe = route({
  method: 'GET',
  path: '/partner/v1/me',
  handle: async ({ caller }) => ({
    partner_slug: caller.key.tenant.partnerSlug,
    partner_name: caller.partnerName,
    status: caller.partnerStatus,
    environment: caller.key.tenant.environment,
  }),
})
