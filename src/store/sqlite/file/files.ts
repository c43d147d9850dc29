// The files of a database and beside it, and the guard against overwriting them.

import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { Problem, usage } from '../../../core/problem.ts'
import { openPlain, openUnlinked, withPlain } from '../../../plain-file.ts'
import { LINKS_MAX, sync } from '../../../whole-file.ts'
import { type Erasure, erasureLine, erasuresIn, unreadErasuresIn } from '../../erasures.ts'

/** Files that SQLite may put beside a database. */
export const BESIDE = ['-wal', '-shm', '-journal'] as const

/** The locks between processes beside a database, each an empty file. */
const LOCK_SUFFIX = { pass: '-tick', import: '-import', advance: '-advance' } as const

/** The note of which file the log belongs to (wal.ts). */
const OWNER_SUFFIX = '-owner'
/** The remembered erasures: a replaced database leaves them to the next one. */
const ERASURES_SUFFIX = '.erasures'

/** The name after all links: SQLite's log and our locks are beside the file itself, and no link must be replaced. */
export function realName(file: string, links = 0): string {
  if (existsSync(file)) return realpathSync(file)
  // A link whose file is gone: the files beside that file are still there, and a new one would be made there.
  const target = links < LINKS_MAX ? readLink(file) : null
  return target === null ? resolve(file) : realName(resolve(dirname(file), target), links + 1)
}

function readLink(file: string): string | null {
  try {
    return readlinkSync(file)
  } catch {
    return null
  }
}

/** Whether there is no database. An empty file does not count as one: a mistyped redirection leaves such a file. */
export const isMissing = (file: string): boolean => sizeOf(file) === 0

/** The write-ahead log of a database: its name, and its size, which is 0 when there is none. */
export const walFile = (database: string): string => `${realName(database)}-wal`
export const walBytes = (database: string): number => sizeOf(walFile(database))

const sizeOf = (name: string): number => statSync(name, { throwIfNoEntry: false })?.size ?? 0

/** The files beside a database, its own name not resolved, that SQLite reads with it because they are not empty. */
export const filesReadWith = (database: string): string[] =>
  ['-wal', '-journal'].map((suffix) => database + suffix).filter((name) => sizeOf(name) > 0)

/** Syncs an emptied log, or commits that a killed process had no time to sync. */
export function syncLog(database: string): void {
  const log = walFile(database)
  if (existsSync(log)) sync(log)
}

/** Removes an unfinished database of ours, and the files beside it. */
export function removeUnfinished(...names: string[]): void {
  for (const name of names)
    for (const suffix of ['', ...BESIDE, OWNER_SUFFIX, ERASURES_SUFFIX])
      rmSync(name + suffix, { force: true })
}

export const ownerNote = (database: string): string => realName(database) + OWNER_SUFFIX

const erasuresFile = (database: string): string => realName(database) + ERASURES_SUFFIX

export const lockFile = (database: string, lock: keyof typeof LOCK_SUFFIX): string =>
  realName(database) + LOCK_SUFFIX[lock]

/** Device and inode; null for a name that leads nowhere, or to a closed folder. */
export function identityOf(file: string): string | null {
  try {
    const { dev, ino } = statSync(file, { bigint: true })
    return `${dev} ${ino}`
  } catch {
    return null
  }
}

type Owner = { uid: number; gid: number }

/** Gives a plain file, never through a link, to `owner`, and sets its mode if one is given. Throws if it may not. */
export const handOver = (file: string, owner: Owner, mode?: number): void =>
  withPlain(file, (descriptor) => {
    give(descriptor, owner)
    if (mode !== undefined) fchmodSync(descriptor, mode)
  })

function give(descriptor: number, { uid, gid }: Owner): void {
  const mine = fstatSync(descriptor)
  if (mine.uid !== uid || mine.gid !== gid) fchownSync(descriptor, uid, gid)
}

/**
 * Opens a plain file beside a database, or creates it, private. A file created by root is given to the owner of the
 * folder, like SQLite's own files, because the service opens it.
 */
export function openOrCreate(file: string, flags: number): number {
  let descriptor: number
  try {
    descriptor = openUnlinked(file, flags | constants.O_CREAT | constants.O_EXCL)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return openPlain(file, flags)
  }
  if (process.getuid?.() === 0) give(descriptor, statSync(dirname(file)))
  return descriptor
}

/** Throws a usage Problem for an output that is the database, its log or one of its locks, forced or not. */
export function refuseDatabaseFile(output: string, database: string): void {
  const identity = identityOf(output)
  for (const suffix of ['', OWNER_SUFFIX, ERASURES_SUFFIX, ...Object.values(LOCK_SUFFIX), ...BESIDE]) {
    const own = realName(database) + suffix
    if (resolve(output) !== resolve(own) && (identity === null || identity !== identityOf(own))) continue
    throw usage(`${output} belongs to the database itself: give another name.`)
  }
}

// Whether the open files still have their names: one that was removed or replaced takes every write and loses it.

/** How long a read trusts the last look: a read loses nothing, so it need not look itself. */
const LOOK_MS = 100

export type NameWatch = {
  /** Looks. Once it has thrown database_gone, it always throws: in between, others may have written elsewhere. */
  look: () => void
  /** Looks, unless the last look was just now. */
  lookNowAndThen: () => void
}

/**
 * Watches the database that was just opened under the name `file`. The files beside it are watched from the call of
 * `besideToo`: the log and its index exist once the log was read, and stay for as long as the database is open.
 */
export function watchFileName(file: string): NameWatch & { besideToo: () => void } {
  /** The file that each name led to when it was first seen. */
  const watched = new Map<string, string>()
  const watch = (name: string): void => {
    const identity = identityOf(name)
    if (identity !== null) watched.set(name, identity)
  }
  watch(file)
  let gone: Problem | null = null
  let lookedAt = Number.NEGATIVE_INFINITY

  function look(): void {
    for (const [name, identity] of watched) if (identityOf(name) !== identity) gone ??= goneFrom(name)
    if (gone) throw gone
    lookedAt = performance.now()
  }

  return {
    look,
    lookNowAndThen() {
      if (gone || performance.now() - lookedAt >= LOOK_MS) look()
    },
    besideToo() {
      for (const name of [walFile(file), `${realName(file)}-shm`]) watch(name)
    },
  }
}

const goneFrom = (name: string): Problem =>
  new Problem(
    'database_gone',
    `${name} was removed or replaced while it was open, so nothing more is stored: ` +
      'see "When the database is gone" in `tranche docs reference` before you stop this process.',
  )

/** File systems whose locks and shared memory do not reach across machines (statfs magic numbers of Linux). */
const NETWORK = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x01021997, '9p'],
  [0x5346414f, 'AFS'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2'],
  [0x786f4256, 'a VirtualBox shared folder'],
])

/** Throws usage for a file on a network file system: two machines would write to it at once and lose money. */
export function refuseNetworkFile(file: string, typeOf: (folder: string) => number = fileSystemType): void {
  // Through a link, it is the file at its end that counts.
  const name = NETWORK.get(typeOf(dirname(existsSync(file) ? realpathSync(file) : file)) >>> 0)
  if (!name) return
  throw usage(
    `${file} is on a network file system (${name}), where SQLite's locks cannot be relied on: keep it on a local disk.`,
  )
}

function fileSystemType(folder: string): number {
  try {
    return process.platform === 'linux' ? statfsSync(folder).type : 0
  } catch {
    // A missing folder gets its own message when the file is opened.
    return 0
  }
}

/** With less, some writes succeed and others do not. */
const ROOM_MIN_BYTES = 1_048_576

/** Null where it cannot be determined. */
function freeBytes(folder: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize
  } catch {
    return null
  }
}

/** Whether there is room for a write beside the file, as far as is known. */
export const hasRoom = (file: string): boolean =>
  (freeBytes(dirname(resolve(file))) ?? ROOM_MIN_BYTES) >= ROOM_MIN_BYTES

/** In words, in brackets; empty where it cannot be determined. */
export function freeOn(folder: string): string {
  const bytes = freeBytes(folder)
  return bytes === null ? '' : ` (${Math.floor(bytes / 1024)} KiB are free)`
}

// The file beside a database in which erasures are remembered (../../erasures.ts).

/** Resolves when they are on the disk. */
export function appendErasures(database: string, erasures: readonly Erasure[]): void {
  if (erasures.length === 0) return
  const file = erasuresFile(database)
  const isNew = !existsSync(file)
  const descriptor = openOrCreate(file, constants.O_RDWR | constants.O_APPEND)
  try {
    const lines = erasures.map(erasureLine).join('')
    writeSync(descriptor, endsInLine(descriptor) ? lines : `\n${lines}`)
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
  if (isNew) sync(dirname(file))
}

/** False if a crash has cut off the last line. */
function endsInLine(descriptor: number): boolean {
  const { size } = fstatSync(descriptor)
  if (size === 0) return true
  const last = Buffer.alloc(1)
  readSync(descriptor, last, 0, 1, size - 1)
  return last.toString() === '\n'
}

export const readErasures = (database: string): Erasure[] => erasuresIn(textBeside(database))

export const countUnreadErasures = (database: string): number => unreadErasuresIn(textBeside(database))

function textBeside(database: string): string {
  const file = erasuresFile(database)
  if (!existsSync(file)) return ''
  return withPlain(file, (descriptor) => readFileSync(descriptor, 'utf8'))
}
