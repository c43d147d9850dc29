// The files that a database consists of, and the guard against writing anything else over them.

import { existsSync, fchmodSync, fchownSync, fstatSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { Problem } from '../../../core/problem.ts'
import { refuseForeignBeside, withPlain } from '../../../plain-file.ts'

/** What SQLite may lay beside a database under its name. */
export const BESIDE = ['-wal', '-shm', '-journal'] as const

/** The locks between processes that lie beside a database, each an empty file. */
const LOCK_SUFFIX = { pass: '-tick', import: '-import', advance: '-advance' } as const

/** Where it is noted which file the log belongs to (wal-owner.ts). */
const OWNER_SUFFIX = '-owner'

/**
 * The name of the file itself, whatever links lead there: SQLite puts its log beside it, as we do our locks, and a link
 * must not be replaced.
 */
export function realName(file: string): string {
  if (file === ':memory:') return file
  if (existsSync(file)) return realpathSync(file)
  // A link whose file is gone: what lay beside that file is still there, and a new one would be made there.
  const target = readLink(file)
  return target === null ? resolve(file) : realName(resolve(dirname(file), target))
}

function readLink(file: string): string | null {
  try {
    return readlinkSync(file)
  } catch {
    return null
  }
}

/**
 * Throws bad_file when SQLite would play back, or write into, a log, an index or a journal that somebody else may have
 * put there. They are looked at, not opened: closing one again would give up the locks of this process on it.
 */
export function refusePlantedBeside(database: string): void {
  const file = realName(database)
  for (const suffix of BESIDE) refuseForeignBeside(file, file + suffix)
}

/** Whether there is no database. An empty file does not count as one: a mistyped redirection leaves such a file. */
export const isMissing = (file: string): boolean =>
  (statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0

/** The write-ahead log of a database: its name, and its size, which is 0 when there is none. */
export const walFile = (database: string): string => `${realName(database)}-wal`
export const walBytes = (database: string): number =>
  statSync(walFile(database), { throwIfNoEntry: false })?.size ?? 0

/** The index of that log, which all who have the database open share. */
export const indexFile = (database: string): string => `${realName(database)}-shm`

export const ownerNote = (database: string): string => realName(database) + OWNER_SUFFIX

export const lockFile = (database: string, lock: keyof typeof LOCK_SUFFIX): string =>
  realName(database) + LOCK_SUFFIX[lock]

/** Device and inode; null for a name that leads nowhere, or nowhere that this process may look. */
export function identityOf(file: string): string | null {
  try {
    const { dev, ino } = statSync(file, { bigint: true })
    return `${dev} ${ino}`
  } catch {
    return null
  }
}

export function isSameFile(a: string, b: string): boolean {
  const identity = identityOf(a)
  return identity !== null && identity === identityOf(b)
}

export type Owner = { uid: number; gid: number }

/**
 * Gives a file of ours to `owner`, with the mode if one is given. Root may do this in a folder in which somebody else
 * can put links, so nothing is changed through a link: it throws instead, as it does when this user may not change the
 * owner.
 */
export function handOver(file: string, { uid, gid }: Owner, mode?: number): void {
  withPlain(file, { ownedBy: () => ownersBeside(file) }, (descriptor) => {
    const mine = fstatSync(descriptor)
    if (mine.uid !== uid || mine.gid !== gid) fchownSync(descriptor, uid, gid)
    if (mode !== undefined) fchmodSync(descriptor, mode)
  })
}

/** Whose a file of ours may be, beside root's and this user's own: the folder's owner, or that of its database. */
export function ownersBeside(file: string): number[] {
  const beside = [OWNER_SUFFIX, ...Object.values(LOCK_SUFFIX)].find((suffix) => file.endsWith(suffix))
  const database = beside === undefined ? file : file.slice(0, -beside.length)
  return [dirname(file), database].flatMap((name) => statSync(name, { throwIfNoEntry: false })?.uid ?? [])
}

/**
 * What root creates beside a database goes to the owner of the folder, as SQLite's own files do, because the service
 * opens it.
 */
export function giveToFolderOwner(file: string): void {
  if (process.getuid?.() === 0) handOver(file, statSync(dirname(file)))
}

/** Throws a usage Problem for an output that is the database, its log or one of its locks, forced or not. */
export function refuseDatabaseFile(output: string, database: string): void {
  for (const suffix of ['', OWNER_SUFFIX, ...Object.values(LOCK_SUFFIX), ...BESIDE]) {
    const own = realName(database) + suffix
    if (resolve(output) !== resolve(own) && !isSameFile(output, own)) continue
    throw new Problem('usage', `${output} belongs to the database itself: give another name.`)
  }
}
