// The append-only record of what operators changed; each entry is written in the transaction of its change.

import type { Instant } from '../../../core/instant.ts'
import type { AuditEntry, AuditFilter, AuditStore } from '../../audit.ts'
import { type AuditRow, auditEntryOf, auditParams } from '../../rows/audit.ts'
import type { Connection, Database } from '../file/connection.ts'

export type AuditLog = ReturnType<typeof createAuditLog>

/** What acts on a plan or a webhook names the partner first, then the environment. */
const FIRST_WORD = `substr(subject, 1, instr(subject || ' ', ' ') - 1)`

/** Whom an entry is about: by its detail, or by what the subject of such an action is. */
const PARTNER = `case
  when json_extract(detail, '$.partner_slug') is not null then json_extract(detail, '$.partner_slug')
  when action glob 'key.*' then (
    select t.partner_slug from api_keys k join tenants t on t.tenant_id = k.tenant_id where k.key_id = subject)
  when action glob 'execution.*' or action glob 'trade.*' then (
    select t.partner_slug from executions e join tenants t on t.tenant_id = e.tenant_id where e.execution_id = subject)
  when action glob 'tier.*' or action glob 'database.*' then null
  else (select p.partner_slug from partners p where p.partner_slug = ${FIRST_WORD})
end`

/** Adds entries, for the transactions of the other files. */
export function createAuditLog(db: Database) {
  const insert = db.prepare(
    `insert into audit (at, os_user, action, subject, detail, digest)
     values (:at, :os_user, :action, :subject, :detail, :digest)`,
  )
  // A backup that was just put back keeps its schema until somebody opens it. Its migration then makes the digest.
  const insertBefore = db.prepare(
    'insert into audit (at, os_user, action, subject, detail) values (:at, :os_user, :action, :subject, :detail)',
  )
  const hasDigest = db
    .prepare<[], bigint>(`select count(*) from pragma_table_info('audit') where name = 'digest'`)
    .pluck()
  let statement: typeof insert | null = null
  return {
    add(entry: AuditEntry, now: Instant): void {
      statement ??= hasDigest.get() === 1n ? insert : insertBefore
      statement.run(auditParams(entry, now))
    },
  }
}

const ALL: AuditFilter = { since: null, until: null, slug: null }

export function createAuditStore({ db, read }: Connection): AuditStore {
  const list = db.prepare<object, AuditRow>(
    `select *, ${PARTNER} as partner_slug from audit
     where audit_id > :after and (:since is null or at >= :since) and (:until is null or at < :until)
       and (:slug is null or ${PARTNER} = :slug)
     order by audit_id limit :limit`,
  )
  return {
    listAudit: ({ after, limit }, filter = ALL) =>
      read(() => list.all({ ...filter, after: after ?? 0, limit }).map(auditEntryOf)),
  }
}
