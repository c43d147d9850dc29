import { z } from 'zod'
import { formatInstant } from '../core/instant.ts'
import { linkUser, setUserStatus, USER_STATUSES, type User } from '../core/user.ts'
import { bool, datetime, id, oneOf, text } from './fields.ts'
import { route } from './route.ts'

const EMAIL_MAX = 320

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
  body: z.object({ status: oneOf(USER_STATUSES) }),
  handle: async ({ store, tenant, params, body }) => {
    const changed = await store.changeUser(tenant, params.partner_user_id ?? '', (seen, now) =>
      setUserStatus(seen, body.status, now),
    )
    const user = userJson(changed.user)
    if (body.status !== 'disabled') return user
    return { ...user, plans_paused: changed.plansPaused, executions_cancelled: changed.executionsCancelled }
  },
})

export const userJson = (user: User) => ({
  partner_user_id: user.partnerUserId,
  email: user.email,
  auth_provider: user.authProvider,
  // A user exists only with consent.
  consent_accepted: true,
  consent_version: user.consentVersion,
  consent_timestamp: formatInstant(user.consentTimestamp),
  status: user.status,
  created_at: formatInstant(user.createdAt),
  updated_at: formatInstant(user.updatedAt),
})
