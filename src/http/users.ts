import { z } from 'zod'
import { linkUser, setUserStatus, type UserStatus } from '../core/user.ts'
import { bool, datetime, id, oneOf, text } from './fields.ts'
import { userJson } from './resource.ts'
import { route } from './route.ts'

const EMAIL_MAX = 320
/** In the order the contract's endpoint names them, which is the order of the error message. */
const PATCH_STATUSES = ['disabled', 'linked'] as const satisfies readonly UserStatus[]

export const userBody = z.object({
  partner_user_id: id(),
  email: text({ max: EMAIL_MAX }).nullish(),
  auth_provider: text().nullish(),
  consent_accepted: bool(),
  consent_version: text(),
  consent_timestamp: datetime(),
})

export const postUser = route({
  method: 'POST',
  path: '/partner/v1/users',
  body: userBody,
  handle: async ({ store, tenant, body }) => {
    const request = {
      partnerUserId: body.partner_user_id,
      email: body.email,
      authProvider: body.auth_provider,
      consentAccepted: body.consent_accepted,
      consentVersion: body.consent_version,
      consentTimestamp: body.consent_timestamp,
    }
    const { user } = await store.changeUser(tenant, request.partnerUserId, (seen, now) =>
      linkUser(seen, request, now),
    )
    return userJson(user)
  },
})

export const patchUser = route({
  method: 'PATCH',
  path: '/partner/v1/users/:partner_user_id',
  body: z.object({ status: oneOf(PATCH_STATUSES) }),
  handle: async ({ store, tenant, params, body }) => {
    const changed = await store.changeUser(tenant, params.partner_user_id ?? '', (seen, now) =>
      setUserStatus(seen, body.status, now),
    )
    const user = userJson(changed.user)
    if (body.status !== 'disabled') return user
    return { ...user, plans_paused: changed.plansPaused, executions_cancelled: changed.executionsCancelled }
  },
})
