// Whether the log beside a database may be read with it: checked before anything opens the two.

import { refuseDamagedLog } from './wal-damage.ts'
import { refuseMissingLog } from './wal-missing.ts'
import { refuseForeignLog } from './wal-owner.ts'

/**
 * Throws bad_file for a log of another file or one that lost commits, and database_gone for one that was removed under
 * a process.
 */
export function refuseDoubtfulLog(database: string): void {
  refuseForeignLog(database)
  refuseMissingLog(database)
  refuseDamagedLog(database)
}
