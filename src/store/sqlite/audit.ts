// The audit log for the transactions that this store writes by itself.

import type { Instant } from '../../core/time.ts'
import { addAudit } from '../shared/audit.ts'
import type { AuditEntry } from '../store.ts'
import type { Driver } from './driver.ts'

export type AuditLog = ReturnType<typeof createAuditLog>

export const createAuditLog = ({ within }: Driver) => ({
  add(entry: AuditEntry, now: Instant): void {
    within((tx) => addAudit(tx, entry, now))
  },
})
