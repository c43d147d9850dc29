// An entry of the audit log: the row and the value.

import type { Instant } from '../../core/instant.ts'
import type { AuditEntry, ListedAuditEntry } from '../audit.ts'
import { withDigest } from '../digests.ts'
import { instant } from './instant.ts'

export type AuditRow = {
  audit_id: bigint
  at: bigint
  os_user: string
  action: string
  subject: string
  detail: string
  partner_slug: string | null
}
export const auditEntryOf = (row: AuditRow): ListedAuditEntry => ({
  auditId: Number(row.audit_id),
  at: instant(row.at),
  osUser: row.os_user,
  action: row.action,
  subject: row.subject,
  detail: JSON.parse(row.detail),
  partnerSlug: row.partner_slug,
})
export const auditParams = ({ osUser, action, subject, detail }: AuditEntry, now: Instant) =>
  withDigest('audit', { at: now, os_user: osUser, action, subject, detail: JSON.stringify(detail) })
