// The model's users: linked, disabled, linked again.

import { type Expected, ok, refused } from './answer.ts'
import { cancelOpen } from './ledger.ts'
import { presentOf, type State, type Tenant, type User } from './state.ts'
import { iso } from './units.ts'

export type UserBody = {
  partner_user_id: string
  email?: string | null
  auth_provider?: string | null
  consent_accepted: boolean
  consent_version: string
  consent_timestamp: string
}

const json = (user: User) => ({
  partner_user_id: user.id,
  email: user.email,
  auth_provider: user.provider,
  consent_accepted: true,
  consent_version: user.consentVersion,
  consent_timestamp: iso(user.consentAt),
  status: user.status,
  created_at: iso(user.createdAt),
  updated_at: iso(user.updatedAt),
})

/** What was left out is kept, null clears; a disabled user stays so. */
export function postUser(state: State, tenant: Tenant, body: UserBody): Expected {
  if (!body.consent_accepted) return refused(400, 'User consent is required.')
  const now = presentOf(state, tenant)
  const id = body.partner_user_id
  const known = tenant.users.get(id)
  const user: User = known ?? {
    id,
    email: null,
    provider: null,
    consentVersion: '',
    consentAt: 0,
    status: 'linked',
    consents: new Map(),
    createdAt: now,
    updatedAt: now,
  }
  if (body.email !== undefined) user.email = body.email
  if (body.auth_provider !== undefined) user.provider = body.auth_provider
  user.consentVersion = body.consent_version
  user.consentAt = Date.parse(body.consent_timestamp)
  user.updatedAt = now
  const consent = `${user.consentVersion} ${iso(user.consentAt)}`
  user.consents.set(consent, user.consents.get(consent) ?? now)
  tenant.users.set(id, user)
  return ok(json(user))
}

/** A disable pauses the active plans and cancels what is open of all plans; a link pauses and starts nothing. */
export function patchUser(state: State, tenant: Tenant, id: string, status: User['status']): Expected {
  const user = tenant.users.get(id)
  if (!user) return refused(404, 'Partner user not found.')
  const now = presentOf(state, tenant)
  const changes = user.status !== status
  if (changes) {
    user.status = status
    user.updatedAt = now
  }
  if (status === 'linked') return ok(json(user))
  let paused = 0
  let cancelled = 0
  for (const plan of changes ? tenant.plans.values() : []) {
    if (plan.user !== user) continue
    cancelled += cancelOpen(plan, now)
    if (plan.status !== 'active') continue
    paused += 1
    plan.status = 'paused'
    plan.updatedAt = now
  }
  return ok({ ...json(user), plans_paused: paused, executions_cancelled: cancelled })
}
