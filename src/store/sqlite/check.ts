// The check of a file: what SQLite says of it, and what only a file can have. The rest is in ../health/check.ts.

import { finding, WAL_LARGE_BYTES } from '../../core/findings.ts'
import { spellBytes } from '../../core/text.ts'
import {
  checkedRules,
  FINDINGS_PER_RULE_MAX,
  faultsOf,
  IMPORT_ROWS,
  importLeft,
  warningsOf,
} from '../health/check.ts'
import type { CheckStore, Fault, Look } from '../monitoring.ts'
import { TENANT_NAME } from '../sql/accounts.ts'
import { followsRule, issuedRule, type Rule } from '../sql/check-rules.ts'
import { IS_OPEN } from '../sql/ledger.ts'
import type { Base } from '../transaction.ts'
import type { Connection, Database } from './file/connection.ts'
import { inOneLine } from './file/errors.ts'
import { lockFile, walBytes, walFile } from './file/files.ts'
import { acquireLock } from './file/locks.ts'
import { ownVitals } from './monitoring.ts'

// The rule of the ledger that only a file has: the counts of open executions are what the executions come to.

/** A poll relies on it: an execution that is not counted would never be handed out. */
const OPEN_COUNT: Rule = {
  kind: 'open_count',
  // Both ways by their keys: a full join of the two would compare each with each.
  sql: `select ${TENANT_NAME} as place, null as start, y.counted, y.expected from (
      select c.tenant_id, c.n as counted, (
        select count(*) from executions e
        where e.tenant_id = c.tenant_id and ${IS_OPEN} and e.lease_expires_at is nullif(c.lease_expires_at, 0)) as expected
      from open_counts c
      union all
      select x.tenant_id, 0, x.n from (
        select e.tenant_id, coalesce(e.lease_expires_at, 0) as lease_expires_at, count(*) as n from executions e
        where ${IS_OPEN} group by 1, 2) x
      where not exists (
        select 1 from open_counts c where c.tenant_id = x.tenant_id and c.lease_expires_at = x.lease_expires_at)) y
    cross join tenants t
    where t.tenant_id = y.tenant_id and y.counted <> y.expected`,
  message: (row) =>
    `counts ${row.counted} open executions whose lease ends at one instant, and has ${row.expected}`,
}

const RULES = checkedRules(followsRule(''), issuedRule('a.detail'), OPEN_COUNT)

export const createCheckStore = (connection: Connection, base: Base): CheckStore => {
  const { db, read } = connection
  return {
    findFaults: faultsOf(base, {
      looks: [
        ['integrity', () => read(() => integrity(db))],
        ['foreign_key', () => read(() => danglingRows(db))],
      ],
      rules: RULES,
      unreadable: (kind) => `the file is damaged where ${kind} is looked for`,
    }),
    findWarnings: warningsOf(base, {
      vitals: ownVitals(connection),
      looks: db.memory ? [] : [largeLog(db), leftImport(db, base)],
    }),
  }
}

// What the check warns of on SQLite alone: a log that grows, and an import that was interrupted.

function largeLog(db: Database): Look {
  return async () => {
    const bytes = walBytes(db.name)
    if (bytes <= WAL_LARGE_BYTES) return []
    const message = `has ${spellBytes(bytes)}: a process that reads without end keeps it from being folded in`
    const log = walFile(db.name)
    return [finding({ kind: 'wal_large', subject: log, message, next: ['lsof', log] })]
  }
}

const leftImport =
  (db: Database, base: Base): Look =>
  async () => {
    const rows = (await base.look((tx) => tx.get(IMPORT_ROWS)))?.n ?? 0n
    if (rows === 0n) return []
    const release = acquireLock(lockFile(db.name, 'import'))
    // An import is running.
    if (!release) return []
    release()
    return [importLeft(rows)]
  }

// What is wrong with the file itself, as SQLite tells: damaged pages, incomplete indexes, and rows with a dangling
// reference.

function integrity(db: Database): Fault[] {
  const lines = db.prepare(`pragma integrity_check(${FINDINGS_PER_RULE_MAX})`).pluck().all() as string[]
  const faults = lines.filter((line) => line !== 'ok')
  return faults.map((fault) => ({ kind: 'integrity', subject: 'database', message: inOneLine(fault) }))
}

function danglingRows(db: Database): Fault[] {
  const rows = db.pragma('foreign_key_check') as { table: string; rowid: bigint | null; parent: string }[]
  return rows.slice(0, FINDINGS_PER_RULE_MAX).map(({ table, rowid, parent }) => ({
    kind: 'foreign_key',
    subject: `${table} row ${rowid ?? '?'}`,
    message: `refers to a row of ${parent} that does not exist`,
  }))
}
