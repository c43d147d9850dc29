// Users over HTTP: linking one, disabling or re-linking it.

import { z } from 'zod'
import { tenantJson } from '../core/partner.ts'
import { notFound } from '../core/problem.ts'
import { EMAIL_MAX } from '../core/text.ts'
import { linkUser, setUserStatus, type UserStatus } from '../core/user.ts'
import { consentJson, userJson } from './answer-json.ts'
import { userAnswer, userChangedAnswer, userStateAnswer, usersAnswer } from './answer-schemas.ts'
import {
  bool,
  datetime,
  describe,
  idCursors,
  oneOf,
  pageFields,
  pageOf,
  pathId,
  rowsFor,
  text,
} from './fields.ts'
import { route } from './route.ts'

/** In the order the contract's endpoint names them, which is the order of the error message. */
const PATCH_STATUSES = ['disabled', 'linked'] as const satisfies readonly UserStatus[]

const userBody = z.object({
  partner_user_id: pathId().meta(
    describe(
      'Your id of the user: permanent, never given to another one. Not `.` or `..`, which no client can send in a path.',
      'user-1',
    ),
  ),
  email: text({ max: EMAIL_MAX }).meta(describe('Contact or relay address.', 'user@example.com')).nullish(),
  auth_provider: text().meta(describe('Where the user signs in.', 'apple')).nullish(),
  consent_accepted: bool().meta(describe('Must be true.', true)),
  consent_version: text().meta(describe('Which consent text was shown. Every version is kept.', '2026-01')),
  consent_timestamp: datetime().meta(describe('When it was accepted.', '2026-01-05T09:30:00Z')),
})

export const postUser = route({
  method: 'POST',
  path: '/partner/v1/users',
  body: userBody,
  answer: userAnswer,
  handle: async ({ store, tenant, body }) => {
    const request = {
      partnerUserId: body.partner_user_id,
      email: body.email,
      authProvider: body.auth_provider,
      consentAccepted: body.consent_accepted,
      consentVersion: body.consent_version,
      consentTimestamp: body.consent_timestamp,
    }
    const { user } = await store.changeUser(tenant, request.partnerUserId, (current, now) =>
      linkUser(current, request, now),
    )
    return userJson(user)
  },
})

const userPatch = z.object({
  status: oneOf(PATCH_STATUSES).meta(describe('The status to set.', 'disabled')),
})

export const patchUser = route({
  method: 'PATCH',
  path: '/partner/v1/users/:partner_user_id',
  body: userPatch,
  answer: userChangedAnswer,
  handle: async ({ store, tenant, params, body }) => {
    const changed = await store.changeUser(tenant, params.partner_user_id, (current, now) =>
      setUserStatus(current, body.status, now),
    )
    const user = userJson(changed.user)
    if (body.status !== 'disabled') return user
    return { ...user, plans_paused: changed.plansPaused, executions_cancelled: changed.executionsCancelled }
  },
})

const cursors = idCursors('linked')

export const getUsers = route({
  method: 'GET',
  path: '/partner/v1/users',
  query: z.object(pageFields('users', cursors, 'bGlua2VkIHVzZXItMQ')),
  answer: usersAnswer,
  handle: async ({ store, tenant, query }) => {
    const users = await store.readUsers(tenant, rowsFor(query))
    const { page, next_cursor } = pageOf(users, query, (last) => cursors.write(last.partnerUserId))
    return { ...tenantJson(tenant), users: page.map(userJson), next_cursor }
  },
})

export const getUser = route({
  method: 'GET',
  path: '/partner/v1/users/:partner_user_id',
  answer: userStateAnswer,
  handle: async ({ store, tenant, params }) => {
    const user = await store.readUser(tenant, params.partner_user_id)
    if (!user) throw notFound('partnerUser')
    return { ...userJson(user), consents: user.consents.map(consentJson) }
  },
})
