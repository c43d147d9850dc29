// A backup of a database in use.

import { existsSync } from 'node:fs'
import { nameTaken, refuseDevice } from '../../../whole-file.ts'
import { type Database, openFile, whenFree } from './connection.ts'
import { explained, notThere, refuseClosedFolder, refuseUnreachable } from './errors.ts'
import { refuseDatabaseFile } from './files.ts'
import { migrationStates } from './migrate.ts'
import { refuseDoubtfulLog } from './wal.ts'
import { copyTo } from './whole-copy.ts'

/** Copies `file` to `copy` while others go on reading and writing. Throws file_exists, database_not_found, bad_file. */
export async function backUp(file: string, copy: string, { replace }: { replace: boolean }): Promise<void> {
  refuseUnreachable(file)
  if (!existsSync(file)) throw notThere(file)
  refuseDoubtfulLog(file)
  refuseClosedFolder(copy)
  refuseDatabaseFile(copy, file)
  refuseDevice(copy)
  if (!replace && existsSync(copy)) throw nameTaken(copy)
  const db = await openToRead(file)
  try {
    await whenFree(() => copyTo(db, copy, { replace }))
  } catch (error) {
    throw explained(error, file)
  } finally {
    db.close()
  }
}

async function openToRead(file: string): Promise<Database> {
  let db: Database | undefined
  try {
    const opened = openFile(file)
    db = opened
    await whenFree(() => migrationStates(opened))
    return opened
  } catch (error) {
    db?.close()
    throw explained(error, file)
  }
}
