// Opens a database file as a Store: creates it if asked to, brings its schema up, prepares every statement once.

import { chmodSync, closeSync, existsSync, openSync, realpathSync, statSync } from 'node:fs'
import type { Instant } from '../../core/instant.ts'
import { Problem } from '../../core/problem.ts'
import type { Store } from '../store.ts'
import { createAuditLog } from './accounts/audit.ts'
import { createPartnerStore } from './accounts/partners.ts'
import { createUserStore } from './accounts/users.ts'
import { createWebhookStore } from './accounts/webhooks.ts'
import { configure, connect, openFile, whenFree } from './file/connection.ts'
import { type MigrationState, migrate, migrationStates } from './file/migrate.ts'
import { refuseNetworkFile } from './file/network-disk.ts'
import { createOpsStore } from './health/monitoring.ts'
import { createHealthStore } from './health/status.ts'
import { createExecutionStore } from './ledger/executions.ts'
import { createLedger } from './ledger/ledger.ts'
import { createLeverStore } from './ledger/levers.ts'
import { createListingStore } from './ledger/listings.ts'
import { createPlanStore } from './ledger/plans.ts'
import { createReportStore, reportedUntil } from './months/months.ts'
import { createSchedulerStore } from './pass/passes.ts'
import { createPage } from './pass/plan-page.ts'
import { createPriceBook, createPriceStore } from './pass/prices.ts'
import { createAnnounce } from './pass/wake-ups.ts'
import { createSandboxDue } from './sandbox/due-plans.ts'
import { createSandboxStore } from './sandbox/sandboxes.ts'
import { createTenantTime } from './sandbox/tenant-time.ts'

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
