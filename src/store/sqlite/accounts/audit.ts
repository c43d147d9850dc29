import type { Instant } from '../../../core/instant.ts'
import { instant } from '../../rows.ts'
import type { AuditEntry, AuditRow, PageRequest } from '../../store.ts'
import type { Database } from '../file/connection.ts'

export type AuditLog = ReturnType<typeof createAuditLog>

/** The append-only record of what operators changed; each entry stands in the transaction of its change. */
export function createAuditLog(db: Database) {
  const sql = {
    add: db.prepare(
      'insert into audit (at, os_user, action, subject, detail) values (:at, :os_user, :action, :subject, :detail)',
    ),
    list: db.prepare<object, Row>(
      'select * from audit where audit_id > :after order by audit_id limit :limit',
    ),
  }
  return {
    add(entry: AuditEntry, now: Instant): void {
      const { osUser, action, subject, detail } = entry
      sql.add.run({ at: now, os_user: osUser, action, subject, detail: JSON.stringify(detail) })
    },

    list({ after, limit }: PageRequest): AuditRow[] {
      return sql.list.all({ after: after ?? 0, limit }).map((row) => ({
        auditId: Number(row.audit_id),
        at: instant(row.at),
        osUser: row.os_user,
        action: row.action,
        subject: row.subject,
        detail: JSON.parse(row.detail),
      }))
    },
  }
}

type Row = { audit_id: bigint; at: bigint; os_user: string; action: string; subject: string; detail: string }
