// The check: what SQLite says of the file, every rule of the ledger, and rows that were changed after they were
// recorded.

import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import { ticket, WAL_LARGE_BYTES } from '../../core/findings.ts'
import { spellBytes } from '../../core/text.ts'
import type { DigestedRow } from '../digests.ts'
import {
  ADJUSTMENTS_AFTER,
  type BrokenRow,
  breakers,
  brokenFault,
  changedAdjustments,
  changedRows,
  changedTrades,
  DIGESTED_TABLES,
  type DigestedAdjustment,
  type DigestedTable,
  type DigestedTrade,
  FINDINGS_MAX,
  FINDINGS_PER_RULE_MAX,
  IMPORT_ROWS,
  importLeft,
  ROWS_PER_READ,
  TRADES_AFTER,
  warningsOf,
} from '../health/check.ts'
import type { CheckStore, Fault, Look } from '../monitoring.ts'
import type { Reader } from '../reader.ts'
import { TENANT_NAME } from '../sql/accounts.ts'
import { followsRule, LEDGER_RULES, type Rule } from '../sql/check-rules.ts'
import { IS_OPEN } from '../sql/ledger.ts'
import type { WindowStore } from '../store.ts'
import { type Connection, type Database, readerOf } from './file/connection.ts'
import { inOneLine, isCorrupt } from './file/errors.ts'
import { lockFile, realName, walBytes, walFile } from './file/files.ts'
import { acquireLock } from './file/locks.ts'
import { vitalParts } from './monitoring.ts'

// The rule of the ledger that only a file has: the counts of open executions are what the executions come to.

/** A poll relies on it: an execution that is not counted would never be handed out. */
const OPEN_COUNT: Rule = {
  kind: 'open_count',
  sql: `select ${TENANT_NAME} as place, null as start, coalesce(c.n, 0) as counted, coalesce(x.n, 0) as expected
    from open_counts c
    full join (
      select e.tenant_id, coalesce(e.lease_expires_at, 0) as lease_expires_at, count(*) as n from executions e
      where ${IS_OPEN} group by 1, 2) x using (tenant_id, lease_expires_at)
    join tenants t using (tenant_id)
    where coalesce(c.n, 0) <> coalesce(x.n, 0)`,
  message: (row) =>
    `counts ${row.counted} open executions whose lease ends at one instant, and has ${row.expected}`,
}

export const createCheckStore = (
  connection: Connection,
  listAhead: WindowStore['listAhead'],
): CheckStore => ({
  findFaults: createFaults(connection),
  findWarnings: createWarnings(connection, listAhead),
})

function createFaults({ db, read }: Connection): CheckStore['findFaults'] {
  return async () => {
    const findings = await read(() => [
      ...readable('integrity', () => integrity(db)),
      ...readable('foreign_key', () => danglingRows(db)),
      ...RULES.flatMap((rule) => readable(rule.kind, () => broken(db, rule))),
      ...readable('adjustment_changed', () => changedAdjustments(adjustments(db))),
    ])
    for (const table of DIGESTED_TABLES) {
      for (let after: object | null = table.first; after !== null && findings.length <= FINDINGS_MAX; ) {
        const from: object = after
        after = null
        const changed = await read(() =>
          readable('row_changed', () => {
            const rows = digested(db, table, from)
            const last = rows.length < ROWS_PER_READ ? undefined : rows.at(-1)
            after = last ? table.keyOf(last) : null
            return changedRows(table.name, rows)
          }),
        )
        findings.push(...changed)
      }
    }
    for (let after: string | null = ''; after !== null && findings.length <= FINDINGS_MAX; ) {
      let last: string | null = null
      const from: string = after
      const changed = await read(() =>
        readable('trade_changed', () => {
          const rows = tradesAfter(db, from)
          last = rows.at(-1)?.execution_id ?? null
          return changedTrades(rows)
        }),
      )
      findings.push(...changed)
      after = last
    }
    return findings
  }
}

/** A page that cannot be read is a finding like any other: the rest of the file may still have something to say. */
function readable(kind: string, look: () => Fault[]): Fault[] {
  try {
    return look()
  } catch (error) {
    if (!isCorrupt(error)) throw error
    const message = `the file is damaged where ${kind} is looked for: ${(error as Error).message}`
    return [{ kind: 'integrity', subject: 'database', message }]
  }
}

const broken = (db: Database, rule: Rule): Fault[] =>
  db
    .prepare<[], BrokenRow>(breakers(rule).text)
    .all()
    .map((row) => brokenFault(rule, row))

const digested = (db: Database, { page }: DigestedTable, after: object): DigestedRow[] =>
  db.prepare<object, DigestedRow>(page.text).all({ ...after, limit: ROWS_PER_READ })

const tradesAfter = (db: Database, after: string): DigestedTrade[] =>
  db.prepare<object, DigestedTrade>(TRADES_AFTER.text).all({ after, limit: ROWS_PER_READ })

/** Few by nature: read in one go. */
const adjustments = (db: Database): DigestedAdjustment[] =>
  db.prepare<object, DigestedAdjustment>(ADJUSTMENTS_AFTER.text).all({ after: 0, limit: -1 })

const RULES = [...LEDGER_RULES, followsRule(''), OPEN_COUNT]

// What the check warns of on SQLite alone: a log that grows, files that others can open, an import that was
// interrupted.

function createWarnings(
  connection: Connection,
  listAhead: WindowStore['listAhead'],
): CheckStore['findWarnings'] {
  const { db, clock } = connection
  const reader = readerOf(connection)
  return warningsOf(reader, {
    clock: async () => clock(),
    vitals: vitalParts(connection),
    listAhead,
    looks: db.memory ? [] : [largeLog(db), openFiles(db), openFolder(db), leftImport(db, reader)],
  })
}

function largeLog(db: Database): Look {
  return async () => {
    const bytes = walBytes(db.name)
    if (bytes <= WAL_LARGE_BYTES) return []
    const message = `has ${spellBytes(bytes)}: a process that reads without end keeps it from being folded in`
    const log = walFile(db.name)
    return [ticket('wal_large', log, message, { next: ['lsof', log] })]
  }
}

function openFiles(db: Database): Look {
  return async () =>
    ['', '-wal', '-shm'].flatMap((suffix) => {
      const file = realName(db.name) + suffix
      const mode = (statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o777
      if ((mode & 0o077) === 0) return []
      const message = `has mode 0${mode.toString(8)}: others on this machine can get at it, and it holds webhook secrets`
      return [ticket('file_open', file, message, { next: ['chmod', '600', file] })]
    })
}

/**
 * A group-writable folder counts unless the group is the owner's alone, as far as its number tells: many systems give
 * each user such a group, and an umask that goes with it.
 */
function openFolder(db: Database): Look {
  return async () => {
    const folder = dirname(realName(db.name))
    const { uid, gid, mode } = statSync(folder)
    const isOpen = (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid !== uid)
    if (!isOpen) return []
    const message = `has mode 0${(mode & 0o7777).toString(8)}: other users of the machine can put files beside the database, and remove or replace it; end that with chmod go-w, or move the database into a folder of its own`
    return [ticket('folder_open', folder, message, { next: ['chmod', 'go-w', folder] })]
  }
}

const leftImport =
  (db: Database, reader: Reader): Look =>
  async () => {
    const rows = (await reader.get(IMPORT_ROWS))?.n ?? 0n
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
