// Opens a database file as a Store: creates it if asked to, and migrates its schema.

import { closeSync, constants, fchmodSync } from 'node:fs'
import type { Instant } from '../../core/time.ts'
import { openPlain, withPlain } from '../../plain-file.ts'
import { assemble } from '../assemble.ts'
import type { OpenOptions } from '../database.ts'
import type { MigrationState } from '../migrations.ts'
import type { OwnListings } from '../shared/executions.ts'
import { OF_TENANT } from '../sql/fragments.ts'
import { query } from '../statement.ts'
import type { Store } from '../store.ts'
import { createOverwriter, FOLLOWING } from './accounts.ts'
import { byHand, createDriver } from './driver.ts'
import { type Checkpoints, takeOverCheckpoints } from './file/checkpoints.ts'
import { type Connection, configure, connect, forgetStatistics, onFile, openFile } from './file/connection.ts'
import { notThere, refuseClosedFolder, refuseUnreachable } from './file/errors.ts'
import { appendErasures, isMissing, realName, refuseNetworkFile, watchFileName } from './file/files.ts'
import { migrate, migrationStates } from './file/migrate.ts'
import { whenFree } from './file/waiting.ts'
import { forgetLogOwner, noteLogOwner, refuseForeignBeside } from './file/wal.ts'
import { ownMonitoring } from './monitoring.ts'
import { ownImports, ownPasses, ownSandboxes } from './pass.ts'

/** Throws database_not_found, schema_newer, database_locked. */
export async function openStore(
  file: string,
  { clock, create, cacheKib, checkpointsAside = false }: OpenOptions & { clock: () => Instant },
): Promise<Store> {
  lookAt(file, create)
  const db = openFile(file)
  const watch = watchFileName(file)
  try {
    // Checked before anything is set, so that a refused file stays unchanged.
    await whenFree(() => migrationStates(db))
    await whenFree(() => configure(db, cacheKib))
    await migrate(db, file, clock)
    await whenFree(() => forgetStatistics(db))
    watch.besideToo()
    // The recorded file must be the one that was opened.
    watch.look()
    noteLogOwner(file)
    const name = realName(file)
    const checkpoints = checkpointsAside ? takeOverCheckpoints(db, name) : null
    return storeOn(connect(db, clock, { watch, checkpoints }), { file: name, checkpoints })
  } catch (error) {
    db.close()
    throw error
  }
}

/** `file` is the database's own name: its locks are beside it. */
function storeOn(
  connection: Connection,
  { file, checkpoints }: { file: string; checkpoints: Checkpoints | null },
): Store {
  const { db } = connection
  const driver = createDriver(connection)
  // Closed last: closing a file gives up all locks of the process on it.
  let descriptor: number | null = null
  const held = () => (descriptor ??= openPlain(file))
  return assemble(driver, {
    following: FOLLOWING,
    keysAtOnce: true,
    confirmsInGroups: false,
    erasing: {
      overwrite: createOverwriter(connection, { file, held }),
      remember: (_, erasures) => byHand(() => appendErasures(file, erasures)),
    },
    listings: LISTINGS,
    passes: ownPasses(connection, file),
    imports: ownImports(driver, file),
    sandboxes: ownSandboxes(driver, file),
    monitoring: ownMonitoring(connection, driver),
    close() {
      checkpoints?.close()
      db.close()
      if (descriptor !== null) closeSync(descriptor)
      forgetLogOwner(file)
    },
  })
}

const LISTINGS: OwnListings = {
  earliest: query(
    `select min(e.execution_id) as first from tenants t cross join executions e on e.tenant_id = t.tenant_id
     where ${OF_TENANT} and e.created_at >= :since`,
  ),
  // Writes are dated and committed one after the other.
  isSettled: () => true,
}

/** What `migrate --status` shows; changes nothing. */
export async function readMigrationStates(file: string): Promise<MigrationState[]> {
  lookAt(file, false)
  return onFile(file, (db) => whenFree(() => migrationStates(db)))
}

/** Refuses names that cannot be opened, and creates a missing file if that is allowed. */
function lookAt(file: string, create: boolean): void {
  refuseNetworkFile(file)
  refuseUnreachable(file)
  // Before a file is created beside a log whose own file is gone.
  refuseForeignBeside(file)
  if (!isMissing(file)) return
  if (!create) throw notThere(file)
  refuseClosedFolder(file)
  // Made private before SQLite opens it, because its log and index files take over the mode.
  const flags = constants.O_RDWR | constants.O_CREAT
  withPlain(realName(file), (descriptor) => fchmodSync(descriptor, 0o600), flags)
}
