// The append-only record of what operators changed; each entry is written in the transaction of its change.

import type { Instant } from '../../../core/instant.ts'
import type { AuditEntry, AuditFilter, AuditStore } from '../../audit.ts'
import { type AuditRow, auditEntryOf } from '../../rows/audit.ts'
import type { Connection, Database } from '../file/connection.ts'

export type AuditLog = ReturnType<typeof createAuditLog>

/** Whether an entry is about a partner: by its detail, or by what the subject of such an action is. */
const OF_PARTNER = `case
  when json_extract(detail, '$.partner_slug') is not null then json_extract(detail, '$.partner_slug') = :slug
  when action glob 'key.*' then subject in (
    select k.key_id from api_keys k join tenants t on t.tenant_id = k.tenant_id where t.partner_slug = :slug)
  when action glob 'execution.*' or action glob 'trade.*' then exists (
    select 1 from executions e join tenants t on t.tenant_id = e.tenant_id
    where e.execution_id = subject and t.partner_slug = :slug)
  when action glob 'plan.*' then substr(subject, 1, length(:slug) + 1) = :slug || ' '
  when action glob 'tier.*' or action glob 'database.*' then 0
  else subject = :slug
end`

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

const ALL: AuditFilter = { since: null, until: null, slug: null }

export function createAuditStore({ db, read }: Connection): AuditStore {
  const list = db.prepare<object, AuditRow>(
    `select * from audit where audit_id > :after and (:since is null or at >= :since) and (:until is null or at < :until)
       and (:slug is null or ${OF_PARTNER})
     order by audit_id limit :limit`,
  )
  return {
    listAudit: ({ after, limit }, filter = ALL) =>
      read(() => list.all({ ...filter, after: after ?? 0, limit }).map(auditEntryOf)),
  }
}
