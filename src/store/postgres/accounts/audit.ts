// The append-only record of what operators changed; each entry is written in the transaction of its change.

import type { Instant } from '../../../core/instant.ts'
import type { AuditEntry, AuditStore } from '../../audit.ts'
import type { Connection } from '../server/connection.ts'
import { query } from '../server/statement.ts'
import type { Tx } from '../server/transaction.ts'

const INSERT = query(
  'insert into audit (at, os_user, action, subject, detail) values (:at, :os_user, :action, :subject, :detail)',
)

/** Adds an entry in the transaction of the change that it tells of. */
export async function addAudit(tx: Tx, entry: AuditEntry, now: Instant): Promise<void> {
  const { osUser, action, subject, detail } = entry
  await tx.run(INSERT, { at: now, os_user: osUser, action, subject, detail: JSON.stringify(detail) })
}

export function createAuditStore(_connection: Connection): AuditStore {
  return {} as AuditStore // SCAFFOLD
}
