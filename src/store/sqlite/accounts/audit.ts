// The append-only record of what operators changed; each entry is written in the transaction of its change.

import type { Instant } from '../../../core/instant.ts'
import type { AuditEntry, AuditStore } from '../../audit.ts'
import { type AuditRow, auditEntryOf } from '../../rows/audit.ts'
import type { Connection, Database } from '../file/connection.ts'

export type AuditLog = ReturnType<typeof createAuditLog>

/** Adds entries, for the transactions of the other files. */
export function createAuditLog(db: Database) {
  const insert = db.prepare(
    'insert into audit (at, os_user, action, subject, detail) values (:at, :os_user, :action, :subject, :detail)',
  )
  return {
    add(entry: AuditEntry, now: Instant): void {
      const { osUser, action, subject, detail } = entry
      insert.run({ at: now, os_user: osUser, action, subject, detail: JSON.stringify(detail) })
    },
  }
}

export function createAuditStore({ db, read }: Connection): AuditStore {
  const list = db.prepare<object, AuditRow>(
    'select * from audit where audit_id > :after order by audit_id limit :limit',
  )
  return {
    listAudit: ({ after, limit }) => read(() => list.all({ after: after ?? 0, limit }).map(auditEntryOf)),
  }
}
