// The audit log for the transactions that this store writes by itself.

import type { Instant } from '../../core/time.ts'
import { addAudit as add } from '../shared/audit.ts'
import type { AuditEntry } from '../store.ts'
import { within } from './driver.ts'
import type { Tx } from './server/pipeline.ts'

export const addAudit = (tx: Tx, entry: AuditEntry, now: Instant): Promise<unknown> =>
  within(tx, (steps) => add(steps, entry, now))
