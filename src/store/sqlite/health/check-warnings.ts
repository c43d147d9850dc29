// What the check warns of on SQLite alone: a log that grows, files that others can open, an import that was
// interrupted.

import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import { WAL_LARGE_BYTES } from '../../../core/alarm-thresholds.ts'
import { spellBytes } from '../../../core/bytes.ts'
import { ticket } from '../../../core/findings.ts'
import type { WindowStore } from '../../bring-back-windows.ts'
import type { CheckStore, Look } from '../../check.ts'
import { IMPORT_ROWS, importLeft, warningsOf } from '../../common/health/warnings.ts'
import type { Reader } from '../../common/reader.ts'
import type { Connection, Database } from '../file/connection.ts'
import { lockFile, realName, walBytes, walFile } from '../file/own-files.ts'
import { acquireLock } from '../file/process-lock.ts'
import { readerOf } from '../file/reader.ts'
import { vitalParts } from './monitoring.ts'

export function createWarnings(
  connection: Connection,
  listAhead: WindowStore['listAhead'],
): CheckStore['findWarnings'] {
  const { db, clock } = connection
  const reader = readerOf(connection)
  return warningsOf(reader, {
    clock: async () => clock(),
    vitals: vitalParts(connection),
    listAhead,
    looks: db.memory ? [] : [largeLog(db), openFiles(db), openFolder(db), leftImport(db, reader)],
  })
}

function largeLog(db: Database): Look {
  return async () => {
    const bytes = walBytes(db.name)
    if (bytes <= WAL_LARGE_BYTES) return []
    const message = `has ${spellBytes(bytes)}: a process that reads without end keeps it from being folded in`
    const log = walFile(db.name)
    return [ticket('wal_large', log, message, { next: ['lsof', log] })]
  }
}

function openFiles(db: Database): Look {
  return async () =>
    ['', '-wal', '-shm'].flatMap((suffix) => {
      const file = realName(db.name) + suffix
      const mode = (statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o777
      if ((mode & 0o077) === 0) return []
      const message = `has mode 0${mode.toString(8)}: others on this machine can get at it, and it holds webhook secrets`
      return [ticket('file_open', file, message, { next: ['chmod', '600', file] })]
    })
}

/**
 * A group-writable folder counts unless the group is the owner's alone, as far as its number tells: many systems give
 * each user such a group, and an umask that goes with it.
 */
function openFolder(db: Database): Look {
  return async () => {
    const folder = dirname(realName(db.name))
    const { uid, gid, mode } = statSync(folder)
    const isOpen = (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid !== uid)
    if (!isOpen) return []
    const message = `has mode 0${(mode & 0o7777).toString(8)}: other users of the machine can put files beside the database, and remove or replace it; end that with chmod go-w, or move the database into a folder of its own`
    return [ticket('folder_open', folder, message, { next: ['chmod', 'go-w', folder] })]
  }
}

const leftImport =
  (db: Database, reader: Reader): Look =>
  async () => {
    const rows = (await reader.get(IMPORT_ROWS))?.n ?? 0n
    if (rows === 0n) return []
    const release = acquireLock(lockFile(db.name, 'import'))
    // An import is running.
    if (!release) return []
    release()
    return [importLeft(rows)]
  }
