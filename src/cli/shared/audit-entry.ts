// Who changes what, as a command reports it to the audit log.

import type { AuditEntry } from '../../store/audit.ts'
import type { Cli } from '../context.ts'

export const auditEntry = (
  cli: Cli,
  action: string,
  subject: string,
  detail: Record<string, unknown> = {},
): AuditEntry => ({ osUser: cli.machine.osUser(), action, subject, detail })
