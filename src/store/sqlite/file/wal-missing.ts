// A log, or its index (-shm), that was removed under a process that has it open. With the index still shared, SQLite
// would look up pages in a new, empty log at places that only the removed one has, and write behind them. With a new
// index, each process would go by its own, and the one that closes last would undo what the other wrote.

import { Problem } from '../../../core/problem.ts'
import { indexFile, realName, walBytes, walFile } from './own-files.ts'
import { isReadByAnother, locksOn } from './process-lock.ts'
import { standStill } from './stand-still.ts'
import { FRAME_HEADER_BYTES, firstBytes, LOG_HEADER_BYTES, logHeader, readIndex } from './wal-format.ts'

/**
 * Looks for half a second: a process that restarts a log, or removes it as the last to close, changes the two files one
 * after the other.
 */
const LOOKS = 25
const BETWEEN_LOOKS_MS = 20

/**
 * Throws database_gone when other processes use a log or an index that is not there any more. Only where the system
 * tells who holds a file (Linux).
 */
export function refuseMissingLog(database: string): void {
  for (let look = 0; look < LOOKS; look++) {
    if (look > 0) standStill(BETWEEN_LOOKS_MS)
    if (logFits(database)) return
  }
  throw new Problem(
    'database_gone',
    `${walFile(database)}, or the -shm beside it, was removed or replaced while another process had it open, ` +
      'so nothing is read or stored: see "When the database is gone" in `tranche docs operations` before you stop that process.',
  )
}

function logFits(database: string): boolean {
  const index = indexFile(database)
  const locks = locksOn(index)
  // Reading it here would also close it, and so give up the locks of this process's own connection.
  if (locks.some(({ isOurs }) => isOurs)) return true
  // A process that has the database open holds both, except at the moments of opening and closing.
  if (locks.length === 0) return !isReadByAnother(realName(database))
  const counted = readIndex(database)
  if (counted === null || counted.frames === 0) return true
  const log = firstBytes(walFile(database), LOG_HEADER_BYTES)
  const hasSalt = log !== null && logHeader(log).salt.equals(counted.salt)
  const frameBytes = FRAME_HEADER_BYTES + counted.pageSize
  return hasSalt && walBytes(database) >= LOG_HEADER_BYTES + counted.frames * frameBytes
}
