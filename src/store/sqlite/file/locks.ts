// A lock between processes that the system releases when its holder dies, however it dies: SQLite's own lock on an
// empty file beside the database. Nothing is ever written to it.

import { constants, existsSync, fstatSync, readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { Problem } from '../../../core/problem.ts'
import { watchName, withPlain } from '../../../plain-file.ts'
import { LOCK_WAIT_MAX_MS, openFile } from './connection.ts'
import { explained, isBusy } from './errors.ts'
import { giveToFolderOwner, lockFile, ownersBeside } from './files.ts'

const heldHere = new Set<string>()

/**
 * Takes the lock and returns its release, or null when it is held, by another process or by this one. Throws
 * storage_failed for a disk that is full or has failed, and bad_file for a name at which somebody put something else.
 */
export function acquireLock(file: string): (() => void) | null {
  if (heldHere.has(file)) return null
  if (file.startsWith(':memory:')) return hold(file, () => {})
  const refuseOther = ensureFile(file)
  // It must exist: SQLite would make one at the end of a link that has appeared since.
  const db = openFile(file, { fileMustExist: true })
  try {
    refuseOther()
    db.exec('begin immediate')
  } catch (error) {
    db.close()
    if (isBusy(error)) return null
    throw explained(error, file)
  }
  return hold(file, () => db.close())
}

/** Returns a check of whether it still has its name. It is closed before it is locked: closing it gives up locks. */
function ensureFile(file: string): () => void {
  const flags = constants.O_RDWR | constants.O_CREAT
  const refuseOther = withPlain(file, { flags, ownedBy: () => ownersBeside(file) }, (descriptor) => {
    // Beside anything but an empty file, SQLite would take what lies there for a log or a journal.
    if (fstatSync(descriptor).size === 0) return watchName(descriptor, file)
    throw new Problem(
      'bad_file',
      `${file} is not empty, so it is no lock of ours: look at it, move it away, and run the command again.`,
    )
  })
  giveToFolderOwner(file)
  return refuseOther
}

/** A release counts once: by the second one, the lock may be somebody else's. */
function hold(file: string, free: () => void): () => void {
  let isHeld = true
  heldHere.add(file)
  return () => {
    if (!isHeld) return
    isHeld = false
    heldHere.delete(file)
    free()
  }
}

/**
 * Whether a process other than this one holds any lock on the file, according to Linux; elsewhere, there is no way to
 * ask. A process that has a database of ours open always holds one.
 */
export const isLockedByAnother = (file: string): boolean => locksOn(file).some(({ isOurs }) => !isOurs)

/** The same, for a read lock and no write lock, as a process holds on a database in write-ahead mode. */
export function isReadByAnother(file: string): boolean {
  const locks = locksOn(file).filter(({ isOurs }) => !isOurs)
  return locks.length > 0 && locks.every(({ isRead }) => isRead)
}

const LOCKS = '/proc/locks'
/** Whether this system tells which process has locked what: Linux does. */
export const canSeeLocks = (): boolean => existsSync(LOCKS)

/**
 * The locks that processes hold on a file, given by its real name. A file that this process has locked must not be
 * opened and closed by it: that would give up all its locks.
 */
export function locksOn(file: string): { isOurs: boolean; isRead: boolean }[] {
  if (!canSeeLocks()) return []
  // Lines such as "3: POSIX  ADVISORY  READ 1234 fe:01:5678 128 128": device, in hexadecimal, and inode.
  const found = statSync(file, { throwIfNoEntry: false, bigint: true })
  if (!found) return []
  const lines = readFileSync(LOCKS, 'utf8')
    .split('\n')
    .filter((line) => line.includes(`:${found.ino} `))
  if (lines.length === 0) return []
  const own = devicesOf(file, found.dev).map((device) => `${device}:${found.ino}`)
  return lines
    .map((line) => line.trim().split(/\s+/))
    .flatMap((words) => {
      const at = words.findIndex((word) => /^[0-9a-f]+:[0-9a-f]+:\d+$/.test(word))
      if (at < 2 || !own.includes(words[at] ?? '')) return []
      return [{ isOurs: words[at - 1] === String(process.pid), isRead: words[at - 2] === 'READ' }]
    })
}

/**
 * The devices under which the list of locks may name a file. It gives the file system's device, which on some file
 * systems (btrfs, overlayfs) is not the one that stat reports; then it is that of the mount.
 */
function devicesOf(file: string, dev: bigint): (string | null)[] {
  const major = ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn)
  const minor = (dev & 0xffn) | ((dev >> 12n) & ~0xffn)
  return [deviceName(major, minor), deviceOfMount(resolve(file))]
}

const deviceName = (major: bigint, minor: bigint): string =>
  [major, minor].map((part) => part.toString(16).padStart(2, '0')).join(':')

/** The device of the mount that a path is on: of the mounts above it, the deepest, and of those the last. */
function deviceOfMount(path: string): string | null {
  let deepest = -1
  let device: string | null = null
  for (const line of readFileSync('/proc/self/mountinfo', 'utf8').split('\n')) {
    const [, , numbers, , escaped] = line.split(' ')
    if (numbers === undefined || escaped === undefined) continue
    const point = escaped.replaceAll(/\\(\d{3})/g, (_, octal) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    )
    const isAbove = point === '/' || path === point || path.startsWith(`${point}/`)
    if (!isAbove || point.length < deepest) continue
    deepest = point.length
    const [major = '0', minor = '0'] = numbers.split(':')
    device = deviceName(BigInt(major), BigInt(minor))
  }
  return device
}

// Keeps passes and migrations away from a file, for what must not meet either.

const LOCK_LOOK_MS = 50

/**
 * Waits for a running pass to end, and keeps the next pass and every other migration from starting. Throws
 * database_locked, with what is held up in the caller's words.
 */
export async function haltPasses(file: string, what: string): Promise<() => void> {
  for (let waitedMs = 0; waitedMs < LOCK_WAIT_MAX_MS; waitedMs += LOCK_LOOK_MS) {
    const release = acquireLock(lockFile(file, 'pass'))
    if (release) return release
    await new Promise((resolve) => setTimeout(resolve, LOCK_LOOK_MS))
  }
  throw new Problem('database_locked', `${what}, but a tick has been running on it for too long.`)
}
