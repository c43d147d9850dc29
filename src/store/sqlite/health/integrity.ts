// What is wrong with the file itself, as SQLite tells: damaged pages, incomplete indexes, and rows with a dangling
// reference.

import type { Fault } from '../../check.ts'
import { FINDINGS_PER_RULE_MAX } from '../../common/health/faults.ts'
import type { Database } from '../file/connection.ts'
import { inOneLine } from '../file/error-kinds.ts'

export function integrity(db: Database): Fault[] {
  const lines = db.prepare(`pragma integrity_check(${FINDINGS_PER_RULE_MAX})`).pluck().all() as string[]
  const faults = lines.filter((line) => line !== 'ok')
  return faults.map((fault) => ({ kind: 'integrity', subject: 'database', message: inOneLine(fault) }))
}

export function danglingRows(db: Database): Fault[] {
  const rows = db.pragma('foreign_key_check') as { table: string; rowid: bigint | null; parent: string }[]
  return rows.slice(0, FINDINGS_PER_RULE_MAX).map(({ table, rowid, parent }) => ({
    kind: 'foreign_key',
    subject: `${table} row ${rowid ?? '?'}`,
    message: `refers to a row of ${parent} that does not exist`,
  }))
}
