// The users a partner has linked.

import type { Instant } from '../core/instant.ts'
import type { Tenant } from '../core/partner.ts'
import type { User, UserChange } from '../core/user.ts'
import type { AuditEntry } from './audit.ts'
import type { PageRequest } from './paging.ts'

export type ListedUser = User & { tenant: Tenant; erasedAt: Instant | null }

export interface UserStore {
  changeUser(
    tenant: Tenant,
    partnerUserId: string,
    decide: (seen: User | null, now: Instant) => UserChange,
  ): Promise<{ user: User; plansPaused: number; executionsCancelled: number }>
  listUsers(tenant: Tenant, page: PageRequest): Promise<(ListedUser & { cursor: number })[]>
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
