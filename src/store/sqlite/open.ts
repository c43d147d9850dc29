// Opens a database file as a Store: creates it if asked to, brings its schema up, prepares every statement once.

import { chmodSync, closeSync, existsSync, openSync, realpathSync, statSync } from 'node:fs'
import type { Instant } from '../../core/instant.ts'
import { Problem } from '../../core/problem.ts'
import type { Store } from '../store.ts'
import { createAnnounce } from './announce.ts'
import { createAuditLog } from './audit.ts'
import { configure, connect, openFile, whenFree } from './connection.ts'
import { createExecutionStore } from './executions.ts'
import { createHealthStore } from './health.ts'
import { createLedger } from './ledger.ts'
import { createLeverStore } from './levers.ts'
import { createListingStore } from './listings.ts'
import { type MigrationState, migrate, migrationStates } from './migrate.ts'
import { createOpsStore } from './ops.ts'
import { createPage } from './page.ts'
import { createPartnerStore } from './partners.ts'
import { refuseNetworkFile } from './place.ts'
import { createPlanStore } from './plans.ts'
import { createPriceBook, createPriceStore } from './prices.ts'
import { createReportStore, reportedUntil } from './reports.ts'
import { createSandboxDue } from './sandbox-due.ts'
import { createSandboxStore } from './sandboxes.ts'
import { createSchedulerStore } from './scheduler.ts'
import { createTenantTime } from './tenant-time.ts'
import { createUserStore } from './users.ts'
import { createWebhookStore } from './webhooks.ts'

export type OpenOptions = { clock: () => Instant; create: boolean; cacheKib?: number }

/** Throws database_not_found, schema_newer, database_locked. `:memory:` opens a database of its own. */
export async function openStore(file: string, { clock, create, cacheKib }: OpenOptions): Promise<Store> {
  const db = openDatabase(file, create)
  try {
    // Looked at before anything is set, so that a file that is refused stays as it was.
    await whenFree(() => migrationStates(db))
    await whenFree(() => configure(db, cacheKib))
    await migrate(db, file, clock)
    const connection = connect(db, clock, reportedUntil(db))
    const time = createTenantTime(connection)
    const ledger = createLedger(db)
    const audit = createAuditLog(db)
    const book = createPriceBook(db)
    const announce = createAnnounce(db)
    const runPage = createPage(db, ledger, time)
    const due = createSandboxDue(connection, time)
    return {
      ...createPartnerStore(connection, audit),
      ...createUserStore(connection, ledger, time),
      ...createPlanStore(connection, ledger, time),
      ...createExecutionStore(connection, { ledger, audit, time }),
      ...createLeverStore(connection, { ledger, audit, time, file }),
      ...createWebhookStore(connection),
      ...createSchedulerStore(connection, { book, runPage, announce, sandboxDue: due, file: oneName(file) }),
      ...createSandboxStore(connection, { time, due, audit, runPage, announce }),
      ...createPriceStore(connection, book, oneName(file)),
      ...createReportStore(connection, time),
      ...createListingStore(connection, ledger, audit),
      ...createHealthStore(connection),
      ...createOpsStore(connection),
      close: () => db.close(),
    }
  } catch (error) {
    db.close()
    throw error
  }
}

/** What `migrate --status` shows; changes nothing. */
export async function readMigrationStates(file: string): Promise<MigrationState[]> {
  const db = openDatabase(file, false)
  try {
    return await whenFree(() => migrationStates(db))
  } finally {
    db.close()
  }
}

/** The same for every path that leads to the file: the scheduler's lock lies beside it under this name. */
const oneName = (file: string): string => (file === ':memory:' ? file : realpathSync(file))

function openDatabase(file: string, create: boolean) {
  refuseNetworkFile(file)
  if (file !== ':memory:' && isMissing(file)) {
    if (!create) throw new Problem('database_not_found', `There is no database at ${file}.`)
    // Made private before SQLite opens it: its log and index files take over the mode.
    closeSync(openSync(file, 'a', 0o600))
    chmodSync(file, 0o600)
  }
  try {
    return openFile(file)
  } catch (error) {
    if ((error as { code?: string }).code !== 'SQLITE_CANTOPEN') throw error
    throw new Error(
      `${file} cannot be opened: its folder must be writable, because SQLite keeps its log beside it.`,
    )
  }
}

/** An empty file is no database either: a mistyped redirection leaves one. */
const isMissing = (file: string): boolean => !existsSync(file) || statSync(file).size === 0
