// Whether the log beside a database may be read with it: asked before anybody opens the two.

import { refuseDamagedLog } from './log-damage.ts'
import { refuseMissingLog } from './log-missing.ts'
import { refuseForeignLog } from './log-owner.ts'

/** Throws bad_file for a log of another file and one that lost commits, database_gone for one taken away under a process. */
export function refuseDoubtfulLog(database: string): void {
  refuseForeignLog(database)
  refuseMissingLog(database)
  refuseDamagedLog(database)
}
