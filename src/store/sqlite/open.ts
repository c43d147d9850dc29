// Opens a database file as a Store: creates it if asked to, brings its schema up, prepares every statement once.

import { closeSync, existsSync, openSync, realpathSync } from 'node:fs'
import type { Instant } from '../../core/instant.ts'
import { Problem } from '../../core/problem.ts'
import type { Store } from '../store.ts'
import { createAuditLog } from './audit.ts'
import { configure, connect, openFile, whenFree } from './connection.ts'
import { createExecutionStore } from './executions.ts'
import { createHealthStore } from './health.ts'
import { createLedger } from './ledger.ts'
import { createLeverStore } from './levers.ts'
import { createListingStore } from './listings.ts'
import { type MigrationState, migrate, migrationStates } from './migrate.ts'
import { createPartnerStore } from './partners.ts'
import { createPlanStore } from './plans.ts'
import { createPriceBook, createPriceStore } from './prices.ts'
import { createReportStore, reportedUntil } from './reports.ts'
import { createSchedulerStore } from './scheduler.ts'
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
    const ledger = createLedger(db)
    const audit = createAuditLog(db)
    const book = createPriceBook(db)
    return {
      ...createPartnerStore(connection, audit),
      ...createUserStore(connection, ledger),
      ...createPlanStore(connection, ledger),
      ...createExecutionStore(connection, ledger, audit),
      ...createLeverStore(connection, { ledger, audit, file }),
      ...createWebhookStore(connection),
      ...createSchedulerStore(connection, { ledger, book, file: oneName(file) }),
      ...createPriceStore(connection, book, oneName(file)),
      ...createReportStore(connection),
      ...createListingStore(connection, ledger, audit),
      ...createHealthStore(connection),
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
  if (file !== ':memory:' && !existsSync(file)) {
    if (!create) throw new Problem('database_not_found', `There is no database at ${file}.`)
    // Made private before SQLite opens it: its log and index files take over the mode.
    closeSync(openSync(file, 'a', 0o600))
  }
  return openFile(file)
}
