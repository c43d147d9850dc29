// Whether the log beside a database may be read with it: asked before anybody opens the two.

import { refuseDamagedLog } from './log-damage.ts'
import { refuseMissingLog } from './log-missing.ts'
import { refuseForeignLog } from './log-owner.ts'

/** Throws bad_file for a log of another file, one that was taken away under a process, and one that lost commits. */
export function refuseDoubtfulLog(database: string): void {
  refuseForeignLog(database)
  refuseMissingLog(database)
  refuseDamagedLog(database)
}
