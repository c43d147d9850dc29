// The users a partner has linked.

import type { Instant } from '../core/instant.ts'
import type { Caller, Tenant } from '../core/partner.ts'
import type { Plan } from '../core/plan.ts'
import type { User, UserChange } from '../core/user.ts'
import type { AuditEntry } from './audit.ts'
import type { PageRequest } from './paging.ts'

export type ListedUser = User & { tenant: Tenant; erasedAt: Instant | null }

/** A consent as the partner stated it, and when that arrived. None is ever changed or removed. */
export type Consent = { version: string; timestamp: Instant; receivedAt: Instant }

export type UserRecord = ListedUser & { consents: Consent[]; plans: Plan[] }

/**
 * Where the text of an erased e-mail may still be found: nowhere; in another row with the same text; in a log that
 * somebody is still reading; in what a server keeps of its past, where no query finds it. Backups are not considered.
 */
export type Remains = 'nowhere' | 'other_row' | 'log' | 'server'

export interface UserStore {
  changeUser(
    tenant: Caller,
    partnerUserId: string,
    decide: (seen: User | null, now: Instant) => UserChange,
  ): Promise<{ user: User; plansPaused: number; executionsCancelled: number }>
  listUsers(tenant: Tenant, page: PageRequest): Promise<(ListedUser & { cursor: number })[]>
  /** A user with every consent, oldest first, and every plan. */
  findUser(tenant: Tenant, partnerUserId: string): Promise<UserRecord | null>
  /**
   * Removes a user's e-mail and provider, also from the bytes on the disk, where the store controls them. Safe to
   * repeat. Throws user_not_found.
   */
  eraseUser(
    tenant: Tenant,
    partnerUserId: string,
    audit: AuditEntry,
  ): Promise<{ user: User; erasedAt: Instant; remains: Remains }>
}
