// Opens a database file as a Store: creates it if asked to, migrates its schema, and puts its rooms together.

import { closeSync, constants, fchmodSync } from 'node:fs'
import type { Instant } from '../../core/instant.ts'
import { Problem } from '../../core/problem.ts'
import { openPlain, withPlain } from '../../plain-file.ts'
import { waitAtClose } from '../at-close.ts'
import type { LostWriteStore } from '../lost-writes.ts'
import type { MigrationState } from '../schema-version.ts'
import { createKeyStore, createPartnerStore, createWebhookStore } from '../shared/accounts.ts'
import { createAuditStore } from '../shared/audit.ts'
import { createTierStore } from '../shared/tiers.ts'
import type { Store } from '../store.ts'
import { createAuditLog } from './accounts/audit.ts'
import { FOLLOWING } from './accounts/follow-partner.ts'
import { createKeyFinder, createKeyMemory } from './accounts/keys.ts'
import { createUserStore } from './accounts/users.ts'
import { createDriver } from './driver.ts'
import type { Checkpoints } from './file/checkpoints.ts'
import { type Connection, connect, type Database, openFile } from './file/connection.ts'
import { explained, notThere, refuseClosedFolder, refuseUnreachable } from './file/error-words.ts'
import { watchName } from './file/file-gone-watch.ts'
import { migrate, migrationStates } from './file/migrate.ts'
import { refuseNetworkFile } from './file/network-disk.ts'
import { isMissing, realName } from './file/own-files.ts'
import { watchSchema } from './file/schema-watch.ts'
import { CHECKPOINT_PAGES, configure } from './file/settings.ts'
import { whenFree } from './file/wait-for-lock.ts'
import { refuseDoubtfulLog } from './file/wal-checks.ts'
import { forgetLogOwner, noteLogOwner } from './file/wal-owner.ts'
import { createCheckStore } from './health/check.ts'
import { createMonitoringStore } from './health/monitoring.ts'
import { createOpsPageStore } from './health/ops-page.ts'
import { createStatusStore } from './health/status.ts'
import { createWindowStore } from './ledger/bring-back-windows.ts'
import { createConfirmations } from './ledger/confirmation-rows.ts'
import { createStops } from './ledger/disable-user.ts'
import { createRecords } from './ledger/execution-record.ts'
import { createExecutionStore } from './ledger/executions.ts'
import { pollNotesOf } from './ledger/last-polls.ts'
import { createLateReports } from './ledger/late-fills.ts'
import { createPlanStore } from './ledger/plans.ts'
import { createTradeStore } from './ledger/trades.ts'
import { createLedger } from './ledger/windows-and-schedules.ts'
import { createMonthStore, reportedUntil } from './months/close-months.ts'
import { createClockStore } from './pass/clock-disputes.ts'
import { createPassStore } from './pass/passes.ts'
import { createPageRunner } from './pass/plan-page.ts'
import { createPriceBook, createPriceStore } from './pass/prices.ts'
import { createWakeUpStore, createWakeUpWriter } from './pass/wake-ups.ts'
import { createSandboxDue } from './sandbox/due-plans.ts'
import { createSandboxStore } from './sandbox/sandboxes.ts'
import { createTenantTime } from './sandbox/tenant-time.ts'

export type OpenOptions = {
  clock: () => Instant
  create: boolean
  cacheKib?: number
  /** Leaves the checkpoints to a thread: for a process that answers calls while it is written to. */
  checkpointsAside?: boolean
}

/** Throws database_not_found, schema_newer, database_locked. `:memory:` opens a database of its own. */
export async function openStore(file: string, options: OpenOptions): Promise<Store> {
  const { clock, create, cacheKib, checkpointsAside = false } = options
  const db = openDatabase(file, create)
  const watch = watchName(file)
  try {
    // Looked at before anything is set, so that a file that is refused stays as it was.
    await whenFree(() => migrationStates(db))
    await whenFree(() => configure(db, cacheKib))
    await migrate(db, file, clock)
    watch.besideToo()
    // The file that is noted here must be the one that was opened.
    watch.look()
    noteLogOwner(file)
    const name = realName(file)
    const checkpoints = checkpointsAside ? await checkpointsOf(db, name) : null
    const connection = connect(db, clock, reportedUntil(db), { watch, schema: watchSchema(db), checkpoints })
    return assemble(connection, { file: name, beforeClose: () => checkpoints?.close() })
  } catch (error) {
    db.close()
    throw error
  }
}

async function checkpointsOf(db: Database, file: string): Promise<Checkpoints | null> {
  const { takeOverCheckpoints } = await import('./file/checkpoints.ts')
  return takeOverCheckpoints(db, { file, pages: CHECKPOINT_PAGES })
}

/** `file` is the database's own name: its locks lie beside it. */
function assemble(
  connection: Connection,
  { file, beforeClose }: { file: string; beforeClose: () => void },
): Store {
  const { db } = connection
  const memory = createKeyMemory(db)
  const time = createTenantTime(connection)
  const driver = createDriver(connection, time)
  const audit = createAuditLog(driver)
  // Closed last: closing a file gives up all locks of the process on it.
  let descriptor: number | null = null
  const held = () => (descriptor ??= openPlain(file))
  const ledger = createLedger(db)
  const stops = createStops(connection, ledger, time)
  const lateReports = createLateReports(db)
  const confirmations = createConfirmations(db, { ledger, time, lateReports })
  const records = createRecords(db, ledger)
  const polls = pollNotesOf(connection)
  const trading = { ledger, stops, audit, time, confirmations, lateReports, records, polls }
  const book = createPriceBook(db)
  const writeWakeUps = createWakeUpWriter(db)
  const runPage = createPageRunner(db, { ledger, stops, time })
  const sandboxDue = createSandboxDue(connection, time)
  const windows = createWindowStore(connection, ledger, audit)
  return {
    ...createPartnerStore(driver, { following: FOLLOWING, forget: memory.forget }),
    ...createKeyStore(driver, memory),
    findKey: createKeyFinder(connection, memory),
    ...createTierStore(driver),
    ...createUserStore(connection, { stops, audit, time, file, held }),
    ...createPlanStore(connection, ledger, time),
    ...windows,
    ...createExecutionStore(connection, trading),
    ...createTradeStore(connection, trading),
    ...createWebhookStore(driver),
    ...createWakeUpStore(connection),
    ...createPassStore(connection, { book, runPage, writeWakeUps, sandboxDue, file }),
    ...createClockStore(connection),
    ...createPriceStore(connection, book, file),
    ...createMonthStore(connection, time),
    ...createSandboxStore(connection, {
      time,
      due: sandboxDue,
      audit,
      within: driver.within,
      runPage,
      writeWakeUps,
      file,
    }),
    ...createAuditStore(driver),
    ...createStatusStore(connection),
    ...NOTHING_LOST,
    ...createCheckStore(connection, windows.listAhead),
    ...createMonitoringStore(connection),
    ...createOpsPageStore(connection),
    async close() {
      const marks = polls.flush()
      if (marks) await waitAtClose(marks)
      beforeClose()
      db.close()
      if (descriptor !== null) closeSync(descriptor)
      forgetLogOwner(file)
    },
  }
}

/** A file that lacks answered commits is not opened at all (file/wal-damage.ts). */
const NOTHING_LOST: LostWriteStore = {
  readLostWrites: async () => null,
  resume: () => Promise.reject(new Problem('usage', 'Nothing stands still: a file has no lost writes.')),
}

/** What `migrate --status` shows; changes nothing. */
export async function readMigrationStates(file: string): Promise<MigrationState[]> {
  const db = openDatabase(file, false)
  try {
    return await whenFree(() => migrationStates(db))
  } catch (error) {
    throw explained(error, file)
  } finally {
    db.close()
  }
}

function openDatabase(file: string, create: boolean) {
  refuseNetworkFile(file)
  refuseUnreachable(file)
  refuseDoubtfulLog(file)
  if (file !== ':memory:' && isMissing(file)) {
    if (!create) throw notThere(file)
    refuseClosedFolder(file)
    // Made private before SQLite opens it: its log and index files take over the mode.
    const flags = constants.O_RDWR | constants.O_CREAT
    withPlain(realName(file), { flags }, (descriptor) => fchmodSync(descriptor, 0o600))
  }
  return openFile(file)
}
