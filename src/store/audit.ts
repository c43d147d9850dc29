// The audit log: what operators changed. It is written by the changes themselves, each with its own entry.

import type { Instant } from '../core/instant.ts'
import type { PageRequest } from './paging.ts'

/** Who did what to which thing: kept with every change an operator makes. */
export type AuditEntry = { osUser: string; action: string; subject: string; detail: Record<string, unknown> }
/** `partnerSlug` is whom it is about; null for what concerns no partner, or one that is not known. */
export type ListedAuditEntry = AuditEntry & { auditId: number; at: Instant; partnerSlug: string | null }

/** Which entries: from `since` on, before `until`, about one partner. Null asks for all. */
export type AuditFilter = { since: Instant | null; until: Instant | null; slug: string | null }

export interface AuditStore {
  /**
   * Entries in the order they were made. An entry is about a partner if it names the partner or one of its keys, users,
   * plans, webhooks or executions. Entries about executions that a sandbox reset has wiped belong to nobody any more.
   */
  listAudit(page: PageRequest, filter?: AuditFilter): Promise<ListedAuditEntry[]>
}
