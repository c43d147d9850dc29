// The append-only record of what operators changed; each entry is written in the transaction of its change.

import type { Instant } from '../../../core/instant.ts'
import type { AuditEntry, AuditFilter, AuditStore } from '../../audit.ts'
import { type AuditRow, auditEntryOf, auditParams } from '../../rows/audit.ts'
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
  `insert into audit (at, os_user, action, subject, detail, digest)
   values (:at, :os_user, :action, :subject, :detail, :digest)`,
)

/** Whom an entry is about: by its detail, or by what the subject of such an action is. */
const PARTNER = `case
  when detail::json ->> 'partner_slug' is not null then detail::json ->> 'partner_slug'
  when action like 'key.%' then (
    select t.partner_slug from api_keys k join tenants t on t.tenant_id = k.tenant_id where k.key_id = subject)
  when action like 'execution.%' or action like 'trade.%' then (
    select t.partner_slug from executions e join tenants t on t.tenant_id = e.tenant_id where e.execution_id = subject)
  when action like 'tier.%' or action like 'database.%' then null
  -- What acts on a plan or a webhook names the partner first, then the environment.
  else (select p.partner_slug from partners p where p.partner_slug = split_part(subject, ' ', 1))
end`
const LIST = query<AuditRow>(
  `select *, ${PARTNER} as partner_slug from audit
   where audit_id > :after and (:since::bigint is null or at >= :since)
     and (:until::bigint is null or at < :until) and (:slug::text is null or ${PARTNER} = :slug)
   order by audit_id limit :limit`,
)
const ALL: AuditFilter = { since: null, until: null, slug: null }

/** Adds an entry in the transaction of the change that it describes, as the last statement of that transaction. */
export async function addAudit(tx: Tx, entry: AuditEntry, now: Instant): Promise<void> {
  await Promise.all([tx.run(IN_TURN), tx.run(INSERT, auditParams(entry, now))])
}

export function createAuditStore(connection: Connection): AuditStore {
  return {
    listAudit: async ({ after, limit }, filter = ALL) => {
      const rows = await connection.look((tx) => tx.all(LIST, { ...filter, after: after ?? 0, limit }))
      return rows.map(auditEntryOf)
    },
  }
}
