// Reads the seal of a file from outside, and takes it off.

import type { Instant } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import type { AuditEntry } from '../../audit.ts'
import type { Seal } from '../../copying/seal-words.ts'
import { type Database, openFile } from '../file/connection.ts'
import { isUnreadable } from '../file/error-kinds.ts'
import { explained, notThere, refuseUnreachable } from '../file/error-words.ts'
import { migrationStates } from '../file/migrate.ts'
import { isMissing, lockFile } from '../file/own-files.ts'
import { acquireLock } from '../file/process-lock.ts'
import { whenFree } from '../file/wait-for-lock.ts'
import { refuseDoubtfulLog } from '../file/wal-checks.ts'
import { damagedLog } from '../file/wal-damage.ts'
import { hasForeignLog } from '../file/wal-owner.ts'
import { addAuditFromOutside, breakSeal, sealOf } from './seal.ts'

/**
 * The seal of whatever is there; also null for a file that cannot be read, or that would be read wrongly with its log.
 */
export function seenSeal(file: string): Seal | null {
  if (isMissing(file) || hasForeignLog(file) || damagedLog(file) !== null) return null
  let db: Database | undefined
  try {
    db = openFile(file, { fileMustExist: true })
    return sealOf(db)
  } catch (error) {
    if (isUnreadable(error)) return null
    throw explained(error, file)
  } finally {
    db?.close()
  }
}

/** Throws usage for a file without a seal, database_not_found, database_in_use, schema_newer, database_locked. */
export async function unseal(
  file: string,
  { now, audit }: { now: Instant; audit: (seal: Seal) => AuditEntry },
): Promise<Seal> {
  refuseUnreachable(file)
  if (isMissing(file)) throw notThere(file)
  refuseDoubtfulLog(file)
  const db = openFile(file)
  let letOn: (() => void) | null = null
  try {
    // A copy that is still without its name would get it afterwards, and two databases would take writes.
    letOn = acquireLock(lockFile(file, 'pass'))
    if (!letOn)
      throw new Problem('database_in_use', `${file} is being copied, or a tick is running: wait for its end.`)
    await whenFree(() => migrationStates(db))
    await whenFree(() => db.exec('begin immediate'))
    const seal = sealOf(db)
    if (!seal) throw new Problem('usage', `${file} is not sealed.`)
    breakSeal(db)
    addAuditFromOutside(db, audit(seal), now)
    db.exec('commit')
    return seal
  } catch (error) {
    throw explained(error, file)
  } finally {
    if (db.inTransaction) db.exec('rollback')
    db.close()
    letOn?.()
  }
}
