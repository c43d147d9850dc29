// The append-only record of what operators changed; each entry is written in the transaction of its change.

import type { Instant } from '../../../core/instant.ts'
import type { AuditEntry, AuditFilter, AuditStore } from '../../audit.ts'
import { type AuditRow, auditEntryOf } from '../../rows/audit.ts'
import type { Connection } from '../server/connection.ts'
import { LOCK } from '../server/locks.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'

/**
 * Entries are numbered in the order in which they are committed, so a reader that goes on after the last one it saw
 * misses none.
 */
const IN_TURN = query(`select pg_advisory_xact_lock(${LOCK.audit}, 0)`)
const INSERT = query(
  'insert into audit (at, os_user, action, subject, detail) values (:at, :os_user, :action, :subject, :detail)',
)

/** Whether an entry is about a partner: by its detail, or by what the subject of such an action is. */
const OF_PARTNER = `case
  when detail::json ->> 'partner_slug' is not null then detail::json ->> 'partner_slug' = :slug
  when action like 'key.%' then subject in (
    select k.key_id from api_keys k join tenants t on t.tenant_id = k.tenant_id where t.partner_slug = :slug)
  when action like 'execution.%' or action like 'trade.%' then exists (
    select 1 from executions e join tenants t on t.tenant_id = e.tenant_id
    where e.execution_id = subject and t.partner_slug = :slug)
  when action like 'plan.%' then starts_with(subject, :slug || ' ')
  when action like 'tier.%' or action like 'database.%' then false
  else subject = :slug
end`
const LIST = query<AuditRow>(
  `select * from audit where audit_id > :after and (:since::bigint is null or at >= :since)
     and (:until::bigint is null or at < :until) and (:slug::text is null or ${OF_PARTNER})
   order by audit_id limit :limit`,
)
const ALL: AuditFilter = { since: null, until: null, slug: null }

/** Adds an entry in the transaction of the change that it describes, as the last statement of that transaction. */
export async function addAudit(tx: Tx, entry: AuditEntry, now: Instant): Promise<void> {
  const { osUser, action, subject } = entry
  const detail = JSON.stringify(entry.detail)
  await Promise.all([tx.run(IN_TURN), tx.run(INSERT, { at: now, os_user: osUser, action, subject, detail })])
}

export function createAuditStore(connection: Connection): AuditStore {
  return {
    listAudit: async ({ after, limit }, filter = ALL) => {
      const rows = await connection.look((tx) => tx.all(LIST, { ...filter, after: after ?? 0, limit }))
      return rows.map(auditEntryOf)
    },
  }
}
