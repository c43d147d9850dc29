// Which file a log belongs to. SQLite takes any `-wal` that lies beside a database for its own: left behind by a file
// that was replaced, it would be mixed into the new one, and both would be damaged.

import { constants, ftruncateSync, readSync, rmSync, statSync, writeSync } from 'node:fs'
import { Problem } from '../../../core/problem.ts'
import { withPlain } from '../../../plain-file.ts'
import { giveToFolderOwner, isMissing, ownerNote, ownersBeside, walBytes, walFile } from './own-files.ts'
import { LOG_HEADER_BYTES } from './wal-format.ts'

/**
 * Whether the log beside the database was last written for another file of that name. A log that is not empty, beside a
 * file that is empty or gone, always was: SQLite would remove it.
 */
export function hasForeignLog(database: string): boolean {
  const bytes = walBytes(database)
  if (bytes > LOG_HEADER_BYTES && isMissing(database)) return true
  const noted = read(ownerNote(database))
  const [file, log] = identities(database)
  return noted?.log === log && noted?.file !== file && bytes > 0
}

/** Throws bad_file before SQLite reads a log that belongs to another file. */
export function refuseForeignLog(database: string): void {
  if (!hasForeignLog(database)) return
  throw new Problem(
    'bad_file',
    `${database} was replaced, emptied or removed, and the log beside it (${walFile(database)}) belongs to the previous file. ` +
      'Opening them together would damage both. See "When the database is gone" in `tranche docs operations`. If the two do ' +
      `belong together, remove ${ownerNote(database)}.`,
  )
}

/** Notes that the log beside a database that was just opened is its own. */
export function noteLogOwner(database: string): void {
  const [file, log] = identities(database)
  if (file === null || log === null) return
  const note = ownerNote(database)
  const noted = read(note)
  if (noted?.file === file && noted.log === log) return
  try {
    withNote(note, constants.O_RDWR | constants.O_CREAT, (descriptor) => {
      ftruncateSync(descriptor)
      writeSync(descriptor, `${file}\n${log}\n`)
    })
    giveToFolderOwner(note)
  } catch {
    // There may be no room, for example. Without the note, the next process has one check fewer, but that is no reason
    // to refuse this one.
  }
}

/** Removes the note once there is no log: the last process to close a database leaves none. */
export function forgetLogOwner(database: string): void {
  try {
    if (identityOf(walFile(database)) === null) rmSync(ownerNote(database), { force: true })
  } catch {
    // The folder may be gone, or no longer ours.
  }
}

function read(note: string): { file: string; log: string } | null {
  try {
    return withNote(note, constants.O_RDONLY, (descriptor) => {
      const text = Buffer.alloc(NOTE_BYTES_MAX)
      const [file = '', log = ''] = text.toString('utf8', 0, readSync(descriptor, text)).split('\n')
      return { file, log }
    })
  } catch {
    return null
  }
}

const NOTE_BYTES_MAX = 256

/** Opens the note, which must be our own: root works in the folders of others, too. */
const withNote = <T>(note: string, flags: number, work: (descriptor: number) => T): T =>
  withPlain(note, { flags, ownedBy: () => ownersBeside(note) }, work)

const identities = (database: string) => [identityOf(database), identityOf(walFile(database))] as const

/**
 * What stays the same for as long as a file exists, even when the machine restarts, which may change the device number.
 * An inode alone is soon given to another file. Null for a file that is not there.
 */
function identityOf(name: string): string | null {
  const found = statSync(name, { bigint: true, throwIfNoEntry: false })
  return found ? `${found.ino} ${found.birthtimeNs}` : null
}
