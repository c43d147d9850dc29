// Which file a log belongs to. SQLite takes any `-wal` beside a database for its own: one left behind by a replaced
// file would be mixed into the new one, and both would be damaged (docs/decisions/file.md#the-log-and-its-file).

import { closeSync, constants, readFileSync, rmSync, statSync, writeSync } from 'node:fs'
import { Problem } from '../../../core/problem.ts'
import { refuseStrange, withPlain } from '../../../plain-file.ts'
import { BESIDE, isMissing, openOrCreate, ownerNote, realName, walBytes, walFile } from './files.ts'

/** The head of a log, before the first page in it. */
const LOG_HEADER_BYTES = 32

/**
 * Throws bad_file before SQLite opens a database whose log belongs to another file, or that has a link, or anything
 * else than a plain file, at the name of its log, the log's index or a journal. They are not opened, because closing
 * one again would release this process's locks on it.
 */
export function refuseForeignBeside(database: string): void {
  const file = realName(database)
  for (const suffix of BESIDE) refuseStrange(file + suffix)
  if (!hasForeignLog(file)) return
  throw new Problem(
    'bad_file',
    `${database} was replaced, emptied or removed, and the log beside it (${walFile(database)}) belongs to the previous file. ` +
      'Opening them together would damage both. See "When the database is gone" in `tranche docs reference`. If the two do ' +
      `belong together, remove ${ownerNote(database)}.`,
  )
}

/**
 * Whether the log beside the database was last written for another file of that name. A log that is not empty, beside a
 * file that is empty or gone, always was: SQLite would remove it.
 */
export function hasForeignLog(database: string): boolean {
  const bytes = walBytes(database)
  if (bytes > LOG_HEADER_BYTES && isMissing(database)) return true
  if (bytes === 0) return false
  const noted = read(ownerNote(database))
  const [file, log] = identities(database)
  return noted?.log === log && noted?.file !== file
}

/** Records that the log beside a database that was just opened is its own. */
export function noteLogOwner(database: string): void {
  const [file, log] = identities(database)
  if (file === null || log === null) return
  const note = ownerNote(database)
  const noted = read(note)
  if (noted?.file === file && noted.log === log) return
  try {
    // Never writes into an existing file: root works in the folders of others, too.
    rmSync(note, { force: true })
    const descriptor = openOrCreate(note, constants.O_RDWR)
    try {
      writeSync(descriptor, `${file}\n${log}\n`)
    } finally {
      closeSync(descriptor)
    }
  } catch {
    // There may be no room. Without the note, the next process has one check fewer: no reason to refuse this one.
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
    return withPlain(note, (descriptor) => {
      const [file = '', log = ''] = readFileSync(descriptor, 'utf8').split('\n')
      return { file, log }
    })
  } catch {
    return null
  }
}

const identities = (database: string) => [identityOf(database), identityOf(walFile(database))] as const

/** Stays while a file exists, also when a restart changes device numbers; an inode is reused. Null for none. */
function identityOf(name: string): string | null {
  const found = statSync(name, { bigint: true, throwIfNoEntry: false })
  return found ? `${found.ino} ${found.birthtimeNs}` : null
}
