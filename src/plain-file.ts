// Opens files at names where others can put a link, a pipe or a file of their own.

import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readSync,
  type Stats,
  writeSync,
} from 'node:fs'
import { Problem } from './core/problem.ts'

const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants

/** Never opens the target of a link, nor waits for the other end of a pipe. Throws the system's error. */
export const openUnlinked = (path: string, flags = O_RDONLY, mode = 0o600): number =>
  openSync(path, flags | O_NOFOLLOW | O_NONBLOCK, mode)

export const isLinkRefused = (error: unknown): boolean =>
  (error as NodeJS.ErrnoException | null)?.code === 'ELOOP'

/** Opens a file that a person named, links included, also without waiting. */
export const openNamed = (path: string): number => openSync(path, O_RDONLY | O_NONBLOCK)

/** Opens a plain file, a created one private. Throws bad_file for anything else, or the system's error. */
export function openPlain(file: string, flags = O_RDONLY): number {
  let descriptor: number
  try {
    descriptor = openUnlinked(file, flags)
  } catch (error) {
    // A socket, a pipe without a reader, and a folder opened for writing do not open at all.
    refuseStrange(file)
    throw error
  }
  try {
    const flaw = kindOf(fstatSync(descriptor))
    if (flaw !== null) throw strange(file, flaw)
    return descriptor
  } catch (error) {
    closeSync(descriptor)
    throw error
  }
}

export function withPlain<T>(file: string, work: (descriptor: number) => T, flags = O_RDONLY): T {
  const descriptor = openPlain(file, flags)
  try {
    return work(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/** Creates an empty private file that another program, or a library, fills by its name. */
export const createPrivate = (file: string): void => closeSync(openSync(file, 'wx', 0o600))

/** Throws bad_file when there is anything but a plain file at a name. It opens nothing, and follows no link. */
export function refuseStrange(file: string): void {
  const found = lstatSync(file, { throwIfNoEntry: false })
  const flaw = found ? kindOf(found) : null
  if (flaw !== null) throw strange(file, flaw)
}

/** The kind of thing at the name, with its article; null for a plain file. */
export function kindOf(found: Stats): string | null {
  if (found.isFile()) return null
  if (found.isSymbolicLink()) return 'a link'
  if (found.isDirectory()) return 'a folder'
  if (found.isFIFO()) return 'a pipe'
  return found.isSocket() ? 'a socket' : 'a device'
}

const strange = (file: string, kind: string): Problem =>
  new Problem(
    'bad_file',
    `${file} is ${kind}, not a plain file: look at it, move it away, and run the command again.`,
  )

const CHUNK_BYTES = 2 ** 20

export function copyAll(from: number, to: number): void {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  for (let at = 0, read = -1; read !== 0; at += read) {
    read = readSync(from, chunk, 0, chunk.length, at)
    writeSync(to, chunk.subarray(0, read))
  }
}
