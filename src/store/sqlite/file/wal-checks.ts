// Whether the log beside a database may be read with it: checked before anything opens the two.

import { refusePlantedBeside } from './own-files.ts'
import { refuseDamagedLog } from './wal-damage.ts'
import { refuseMissingLog } from './wal-missing.ts'
import { refuseForeignLog } from './wal-owner.ts'

/**
 * Throws bad_file for a log that is no plain file or may be somebody else's, that belongs to another file, or that lost
 * commits, and database_gone for one
 * that was removed under a process.
 */
export function refuseDoubtfulLog(database: string): void {
  refusePlantedBeside(database)
  refuseForeignLog(database)
  refuseMissingLog(database)
  refuseDamagedLog(database)
}
