// Whether the log beside a database may be read with it: checked before anything opens the two.

import { refuseStrange } from '../../../plain-file.ts'
import { BESIDE, realName } from './own-files.ts'
import { refuseDamagedLog } from './wal-damage.ts'
import { refuseMissingLog } from './wal-missing.ts'
import { refuseForeignLog } from './wal-owner.ts'

/**
 * Throws bad_file for a log that is no plain file, belongs to another file or lost commits, and database_gone for one
 * that was removed under a process.
 */
export function refuseDoubtfulLog(database: string): void {
  // Looked at, not opened: closing one again would give up the locks of this process on it.
  for (const suffix of BESIDE) refuseStrange(realName(database) + suffix)
  refuseForeignLog(database)
  refuseMissingLog(database)
  refuseDamagedLog(database)
}
