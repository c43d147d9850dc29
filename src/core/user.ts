// Partner users: linking, metadata, disabling.

import { notFound, Problem } from './problem.ts'
import type { Instant } from './time.ts'

export type UserStatus = 'linked' | 'disabled'

export const CONSENTS_SHOWN = 1_000

export type User = {
  partnerUserId: string
  email: string | null
  authProvider: string | null
  consentVersion: string
  consentTimestamp: Instant
  status: UserStatus
  createdAt: Instant
  updatedAt: Instant
}

/** A checked POST /users body. An optional field left out keeps its value; null clears it. */
export type UserRequest = {
  partnerUserId: string
  email?: string | null | undefined
  authProvider?: string | null | undefined
  consentAccepted: boolean
  consentVersion: string
  consentTimestamp: Instant
}

/** Links a user, or updates the metadata of a known one. A disabled user stays disabled. */
export function linkUser(current: User | null, request: UserRequest, now: Instant): UserChange {
  if (!request.consentAccepted) throw new Problem('consent_required', 'User consent is required.')
  const user: User = {
    partnerUserId: request.partnerUserId,
    email: request.email === undefined ? (current?.email ?? null) : request.email,
    authProvider: request.authProvider === undefined ? (current?.authProvider ?? null) : request.authProvider,
    consentVersion: request.consentVersion,
    consentTimestamp: request.consentTimestamp,
    status: current?.status ?? 'linked',
    createdAt: current?.createdAt ?? now,
    updatedAt: now,
  }
  return { user, stopsPlans: false }
}

export type UserChange = {
  user: User
  /** On a disable, the user's active plans become paused and every open execution of the user is cancelled. */
  stopsPlans: boolean
}

/** Disables or re-links a user. Plans paused by a disable stay paused until the partner sends them again. */
export function setUserStatus(current: User | null, status: UserStatus, now: Instant): UserChange {
  if (!current) throw notFound('partnerUser')
  const user = current.status === status ? current : { ...current, status, updatedAt: now }
  return { user, stopsPlans: status === 'disabled' }
}
