// The audit log: what operators changed. It is written by the changes themselves, each with its own entry.

import type { Instant } from '../core/instant.ts'
import type { PageRequest } from './paging.ts'

/** Who did what to which thing: kept with every change an operator makes. */
export type AuditEntry = { osUser: string; action: string; subject: string; detail: Record<string, unknown> }
export type ListedAuditEntry = AuditEntry & { auditId: number; at: Instant }

export interface AuditStore {
  listAudit(page: PageRequest): Promise<ListedAuditEntry[]>
}
