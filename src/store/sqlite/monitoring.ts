// Reads of monitoring and the check for a file alone, where a server plans other SQL well (../postgres/monitoring.ts);
// ../health/ interprets the results. Each read of monitoring goes along an index or a range of the primary key, in
// pages: between two pages, other requests get their turn, however many rows there are.

import { constants, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { finding, WAL_LARGE_BYTES } from '../../core/findings.ts'
import { spellBytes } from '../../core/text.ts'
import { DAY_MS, plus } from '../../core/time.ts'
import { isLost } from '../../whole-file.ts'
import type { OwnMonitoring } from '../assemble.ts'
import { checkedRules, FINDINGS_PER_RULE_MAX } from '../health/check.ts'
import { NEWEST_EXECUTION, type OpsSql, pricePointOf, TRANCHE, trancheOf } from '../health/ops-page.ts'
import { firstAwake, lateFills, type OwnVitals, type PartnerSql, partnersPage } from '../health/vitals.ts'
import type { Fault, Look } from '../monitoring.ts'
import { countOf, query } from '../statement.ts'
import type { Base } from '../transaction.ts'
import { type Connection, type Database, databaseBytes } from './file/connection.ts'
import { giveBack, inOneLine, isDenied, userName } from './file/errors.ts'
import { realName, walBytes, walFile } from './file/files.ts'
import { schemaDifferences } from './file/migrate.ts'

export const ownMonitoring = (connection: Connection, base: Base): OwnMonitoring => {
  const { db, probe, read } = connection
  return {
    // A savepoint that is rolled back inside a transaction that commits: the page still reaches the log and the disk,
    // so a full disk is noticed, but the row never existed.
    probeWrite: () =>
      probe(() => {
        db.exec('savepoint probe; insert into ticks (at) values (0); rollback to probe; release probe')
      }),
    // Only one process writes at a time, and each write assigns higher ids than the one before.
    settledExecution: async () => (await base.look((tx) => tx.get(NEWEST_EXECUTION))) ?? null,
    walBytes: async () => walBytes(db.name),
    readStandbyAway: async () => null,
    vitals: {
      firstAwake: FIRST_AWAKE,
      partners: PARTNER_SQL,
      isLost,
      looks: db.memory ? [] : [openFiles(db), openFolder(db), closedFiles(db), largeLog(db)],
      readDisk: diskReader(connection, base),
    },
    faults: {
      schema: { compare: () => read(() => schemaDifferences(db)) },
      looks: [
        ['integrity', () => read(() => integrity(db))],
        ['foreign_key', () => read(() => danglingRows(db))],
      ],
      rules: RULES,
      unreadable: (kind) => `the file is damaged where ${kind} is looked for`,
    },
    opsSql: OPS_SQL,
  }
}

// Monitoring's reads in SQLite's own SQL: they use the counts of outcomes that triggers maintain
// (sql/0011_findings.sql), and hints where SQLite would plan badly.

// "Not indexed" makes SQLite walk along the primary key: by the index of awake plans it would read and sort all.
const FIRST_AWAKE = firstAwake('schedules s not indexed')

const ordersOf = (outcome: string): string =>
  `(select sum(o.${outcome}) from outcomes o where o.tenant_id = t.tenant_id and o.hour > :hour)`

const PARTNER_SQL: PartnerSql = {
  page: partnersPage({ filled: ordersOf('filled'), failed: ordersOf('failed') }),
  lateFills: lateFills('executions indexed by executions_unkept'),
}

/** The reads of the operator's page. */
const OPS_SQL: OpsSql = {
  // Tenant by tenant, so that nothing of a test environment is ever read. The latest N of all are among the latest N of
  // each of the N tenants that fired last.
  latest: query(
    `select ${TRANCHE}
     from (select tenant_id, (select max(created_at) from executions x where x.tenant_id = l.tenant_id) as fired_at
           from tenants l where environment = 'live' order by fired_at desc limit :limit) n
       cross join executions e join plans p using (plan_id) join tenants t on t.tenant_id = n.tenant_id
     where e.execution_id in (select execution_id from executions x where x.tenant_id = n.tenant_id
                              order by created_at desc, execution_id desc limit :limit)
     order by e.created_at desc, e.execution_id desc limit :limit`,
    trancheOf,
  ),
  // SQLite takes the other columns from the row with the maximum.
  prices: query(
    'select max(at) as at, price from prices where at between :since and :until group by at / :step order by at',
    pricePointOf,
  ),
}

const BYTES_SINCE = query(
  `select database_bytes as n from ticks where at >= :since and database_bytes is not null
   order by tick_id limit 1`,
  countOf,
)

const diskReader =
  ({ db }: Connection, base: Base): OwnVitals['readDisk'] =>
  async (now) => {
    if (db.memory) return null
    const folder = dirname(realName(db.name))
    const { bavail, bfree, blocks, bsize } = statfsSync(folder)
    const before = await base.look((tx) => tx.get(BYTES_SINCE, { since: plus(now, -DAY_MS) }))
    return {
      folder,
      freeBytes: bavail * bsize,
      totalBytes: (blocks - bfree + bavail) * bsize,
      dayGrowthBytes: before ? Math.max(0, databaseBytes(db) - before) : 0,
    }
  }

type Seen = { file: string; isDatabase: boolean; uid: number; mode: number }

/** The existing ones of the file, its log and the log's index. */
const filesOf = (db: Database): Seen[] =>
  ['', '-wal', '-shm'].flatMap((suffix) => {
    const file = realName(db.name) + suffix
    const stats = statSync(file, { throwIfNoEntry: false })
    return stats ? [{ file, isDatabase: suffix === '', uid: stats.uid, mode: stats.mode & 0o777 }] : []
  })

/** Files beside it take its mode when they are made, so they are named only where the file is closed. */
const openFiles =
  (db: Database): Look =>
  async () => {
    const open = filesOf(db).filter(({ mode }) => (mode & 0o077) !== 0)
    return (open[0]?.isDatabase ? open.slice(0, 1) : open).map(({ file, mode }) => {
      const message = `has mode 0${mode.toString(8)}: other users of this machine can access it, and it holds webhook secrets`
      return finding({ kind: 'file_open', subject: file, message, next: ['chmod', '600', file] })
    })
  }

/** A group-writable folder counts unless the group has the owner's number: many systems give each user such a group. */
function openFolder(db: Database): Look {
  return async () => {
    const folder = dirname(realName(db.name))
    const { uid, gid, mode } = statSync(folder)
    const isOpen = (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid !== uid)
    if (!isOpen) return []
    const message = `has mode 0${(mode & 0o7777).toString(8)}: other users of the machine can put files beside the database, and remove or replace it; end that with chmod go-w, or move the database into a folder of its own`
    return [finding({ kind: 'file_open', subject: folder, message, next: ['chmod', 'go-w', folder] })]
  }
}

/** A process that has them open continues without noticing. The next one cannot: no tick, and no restart. */
const closedFiles =
  (db: Database): Look =>
  async () =>
    filesOf(db)
      .filter(({ file }) => isDenied(file, constants.R_OK | constants.W_OK))
      .map(({ file, uid, mode }) => {
        const own = process.geteuid?.() ?? uid
        const nameOf = (id: number): string => userName(id) ?? `user ${id}`
        const message = `belongs to ${nameOf(uid)} and has mode 0${mode.toString(8)}: ${nameOf(own)}, who runs this, can no longer open it, so whatever starts next fails`
        const next = uid === own ? ['chmod', '600', file] : giveBack(file)
        return finding({ kind: 'file_closed', subject: file, message, next })
      })

const RULES = checkedRules('')

function largeLog(db: Database): Look {
  return async () => {
    const bytes = walBytes(db.name)
    if (bytes <= WAL_LARGE_BYTES) return []
    const message = `has ${spellBytes(bytes)}: a process that reads without end keeps it from being checkpointed`
    const log = walFile(db.name)
    return [finding({ kind: 'wal_large', subject: log, message, next: ['lsof', log] })]
  }
}

// Faults of the file itself, found by SQLite: damaged pages, incomplete indexes, and rows with a dangling reference.

function integrity(db: Database): Fault[] {
  const look = db.prepare<[], string>(`pragma integrity_check(${FINDINGS_PER_RULE_MAX})`).pluck()
  const isFault = (line: string): boolean => line !== 'ok'
  // To SQLite, a read that fails once looks like damage.
  const faults = look.all().some(isFault) ? look.all().filter(isFault) : []
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
