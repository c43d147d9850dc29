// The users a partner has linked.

import type { Instant } from '../core/instant.ts'
import type { Tenant } from '../core/partner.ts'
import type { Plan } from '../core/plan.ts'
import type { User, UserChange } from '../core/user.ts'
import type { AuditEntry } from './audit.ts'
import type { PageRequest } from './paging.ts'

export type ListedUser = User & { tenant: Tenant; erasedAt: Instant | null }

/** A consent as the partner stated it, and when that arrived. None is ever changed or removed. */
export type Consent = { version: string; timestamp: Instant; receivedAt: Instant }

export type UserRecord = ListedUser & { consents: Consent[]; plans: Plan[] }

export interface UserStore {
  changeUser(
    tenant: Tenant,
    partnerUserId: string,
    decide: (seen: User | null, now: Instant) => UserChange,
  ): Promise<{ user: User; plansPaused: number; executionsCancelled: number }>
  listUsers(tenant: Tenant, page: PageRequest): Promise<(ListedUser & { cursor: number })[]>
  /** A user with every consent, oldest first, and every plan. */
  findUser(tenant: Tenant, partnerUserId: string): Promise<UserRecord | null>
  /**
   * Removes a user's e-mail and provider, from the file's bytes as well. Safe to repeat. Throws user_not_found.
   * `gone` is false when the file still holds the e-mail's text, in another row or because a reader kept the log.
   */
  eraseUser(
    tenant: Tenant,
    partnerUserId: string,
    audit: AuditEntry,
  ): Promise<{ user: User; erasedAt: Instant; gone: boolean }>
}
