// Opens files at names where others can put something: it may be a link, a pipe or another user's file.

import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readSync,
  type Stats,
  statSync,
  writeSync,
} from 'node:fs'
import { Problem } from './core/problem.ts'

const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants

/**
 * Opens whatever has the name, but never the target of a link, and without waiting for the other end of a pipe. The
 * caller checks what it got. Throws the system's error; `isLinkRefused` recognises a link.
 */
export const openUnlinked = (path: string, flags = O_RDONLY, mode = 0o600): number =>
  openSync(path, flags | O_NOFOLLOW | O_NONBLOCK, mode)

export const isLinkRefused = (error: unknown): boolean =>
  (error as NodeJS.ErrnoException | null)?.code === 'ELOOP'

/** Opens a file that a person named, links included, also without waiting. */
export const openNamed = (path: string): number => openSync(path, O_RDONLY | O_NONBLOCK)

type PlainOptions = {
  /** As of open(2); to read, unless given. A file that this creates is private. */
  flags?: number
  /** The users, besides root and this one, who may own it. It must then also have a single name and a single writer. */
  ownedBy?: (() => readonly number[]) | null
}

/**
 * Opens a plain file and returns its descriptor. Throws bad_file for a link and anything else that is not a plain file,
 * without following, creating or waiting for anything; and, where `ownedBy` is given, for a file of another user, with
 * a second name or that everybody may write. Throws the system's error otherwise.
 */
export function openPlain(file: string, { flags = O_RDONLY, ownedBy = null }: PlainOptions = {}): number {
  let descriptor: number
  try {
    descriptor = openUnlinked(file, flags)
  } catch (error) {
    // A socket, a pipe without a reader, and a folder opened for writing do not open at all.
    refuseStrange(file)
    throw error
  }
  try {
    const found = fstatSync(descriptor)
    const flaw = kindOf(found) ?? (ownedBy ? strangerOf(found, ownedBy()) : null)
    if (flaw !== null) throw planted(file, flaw)
    return descriptor
  } catch (error) {
    closeSync(descriptor)
    throw error
  }
}

/** Opens a plain file, as `openPlain` does, for as long as `work` takes. */
export function withPlain<T>(file: string, options: PlainOptions, work: (descriptor: number) => T): T {
  const descriptor = openPlain(file, options)
  try {
    return work(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/**
 * Creates an empty private file that another program, or a library, fills by its name. Returns a check that throws
 * bad_file when the name now leads to anything else.
 */
export function createPrivate(file: string): () => void {
  const descriptor = openSync(file, 'wx', 0o600)
  const refuseOther = watchName(descriptor, file)
  closeSync(descriptor)
  return refuseOther
}

/** Returns a check that throws bad_file when the name no longer leads to the file, which may be closed meanwhile. */
export function watchName(descriptor: number, file: string): () => void {
  const held = fstatSync(descriptor, { bigint: true })
  return () => {
    const now = lstatSync(file, { bigint: true, throwIfNoEntry: false })
    if (now?.ino !== held.ino || now.dev !== held.dev)
      throw new Problem(
        'bad_file',
        `${file} was removed or replaced while it was in use: run the command again.`,
      )
  }
}

/** Throws bad_file when there is anything but a plain file at a name. It opens nothing, and follows no link. */
export function refuseStrange(file: string): void {
  const found = lstatSync(file, { throwIfNoEntry: false })
  const flaw = found ? kindOf(found) : null
  if (flaw !== null) throw planted(file, flaw)
}

/**
 * Throws bad_file for a file that a library would read or write together with `main`, and that somebody else may have
 * put beside it: one that belongs neither to this user, nor to root, nor to the owner of `main`, that has a second
 * name, or that more people may write than `main`. It opens nothing.
 */
export function refuseForeignBeside(main: string, file: string): void {
  const found = lstatSync(file, { throwIfNoEntry: false })
  if (!found) return
  const beside = statSync(main, { throwIfNoEntry: false })
  const uid = process.getuid?.()
  const owners = [uid, 0, beside?.uid]
  const flaw =
    kindOf(found) ??
    (found.nlink !== 1
      ? 'a file with a second name (a hard link)'
      : uid === undefined
        ? null
        : !owners.includes(found.uid)
          ? `a file of another user (uid ${found.uid})`
          : (found.mode & ~(beside?.mode ?? 0) & OTHERS_MAY_WRITE) !== 0
            ? `a file of uid ${found.uid} that others may write, unlike ${main}`
            : null)
  if (flaw !== null) throw planted(file, flaw)
}

const OTHERS_MAY_WRITE = 0o022

/** What kind of thing is at the name, with its article; null for a plain file. */
export function kindOf(found: Stats): string | null {
  if (found.isFile()) return null
  if (found.isSymbolicLink()) return 'a link'
  if (found.isDirectory()) return 'a folder'
  if (found.isFIFO()) return 'a pipe'
  return found.isSocket() ? 'a socket' : 'a device'
}

/** Why a plain file counts as another user's; null for our own. Windows has no such owners. */
function strangerOf(found: Stats, others: readonly number[]): string | null {
  if (found.nlink !== 1) return 'a file with a second name (a hard link)'
  const uid = process.getuid?.()
  if (uid === undefined) return null
  if (![uid, 0, ...others].includes(found.uid)) return `a file of another user (uid ${found.uid})`
  return (found.mode & 0o002) === 0 ? null : 'a file that everybody may write'
}

const planted = (file: string, kind: string): Problem =>
  new Problem(
    'bad_file',
    `${file} is ${kind}, not a plain file of our own: look at it, move it away, and run the command again.`,
  )

const CHUNK_BYTES = 2 ** 20

/** Copies all of an open file into another one. */
export function copyAll(from: number, to: number): void {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  for (let at = 0, read = -1; read !== 0; at += read) {
    read = readSync(from, chunk, 0, chunk.length, at)
    writeSync(to, chunk.subarray(0, read))
  }
}
