// What a command leaves in the audit log: who gave it, which is a user of this machine, and what it has changed.

import type { AuditEntry } from '../store/store.ts'
import type { Cli } from './context.ts'

export const auditEntry = (
  cli: Cli,
  action: string,
  subject: string,
  detail: Record<string, unknown> = {},
): AuditEntry => ({ osUser: cli.machine.osUser(), action, subject, detail })
