// Files that appear under their name only when they are complete: written under another name, synced to disk, and then
// renamed.

import { randomUUID } from 'node:crypto'
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  linkSync,
  lstatSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { hostname } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { Problem, reasonInWords } from './core/problem.ts'
import { openNamed } from './plain-file.ts'

/** A reader sees the old content or the new one, whatever interrupts it. Throws file_exists, storage_failed. */
export async function writeFileWhole(
  file: string,
  chunks: AsyncIterable<string> | readonly string[],
  { replace }: { replace: boolean },
): Promise<void> {
  const aside = nameAside(file)
  let handle: FileHandle | null = null
  let hasName = false
  const interrupted = (signal: NodeJS.Signals) => {
    rmSync(aside, { force: true })
    // Both listeners are removed by then: the signal ends the process, as its caller expects.
    listen('off')
    process.kill(process.pid, signal)
  }
  const listen = (verb: 'on' | 'off') => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process[verb](signal, interrupted)
  }
  listen('on')
  try {
    handle = await open(aside, 'wx', 0o600)
    await writeAll(handle, chunks)
    await handle.sync()
    await handle.close()
    handle = null
    giveName(aside, file, { replace })
    hasName = true
    syncFolder(dirname(file))
  } catch (error) {
    if (!isOfSystem(error)) throw error
    const left = hasName
      ? 'it is complete, but a power cut may undo that'
      : existsSync(file)
        ? 'the file that had the name before is unchanged'
        : 'nothing has that name'
    throw new Problem('storage_failed', `${file} could not be written: ${reasonInWords(error)}; ${left}.`)
  } finally {
    listen('off')
    await handle?.close().catch(() => {})
    rmSync(aside, { force: true })
  }
}

/** Writes each piece while the next one is made. */
async function writeAll(file: FileHandle, chunks: AsyncIterable<string> | readonly string[]): Promise<void> {
  let written = Promise.resolve()
  try {
    for await (const chunk of chunks) {
      await written
      written = file.writeFile(chunk)
      // The failure is handled where the promise is awaited, which may be later.
      written.catch(() => {})
    }
  } finally {
    await written
  }
}

/** Whether the operating system failed, and not the function that makes the content. */
const isOfSystem = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && 'syscall' in error

/** Has the process id, by which the file of a killed process is known and removed. Throws bad_file. */
export function nameAside(file: string): string {
  if (isFolder(file)) throw new Problem('bad_file', folderGiven(file))
  refuseDevice(file)
  const folder = dirname(file)
  const start = `${basename(file)}.partial-`
  for (const left of namesIn(folder)) {
    const pid = left.startsWith(start)
      ? /^(\d+)-[0-9a-f-]{36}/.exec(left.slice(start.length))?.[1]
      : undefined
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(folder, left), { force: true })
  }
  return join(folder, `${start}${process.pid}-${randomUUID()}`)
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if (!['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    throw new Problem('bad_file', `There is no folder ${folder}.`)
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // A process of another user is alive as well.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Renames a finished file. Throws file_exists when the name is taken by now and may not be replaced. */
export function giveName(aside: string, name: string, { replace }: { replace: boolean }): void {
  if (replace) {
    renameSync(aside, name)
    return
  }
  try {
    // A rename would silently replace the file that has the name.
    linkSync(aside, name)
  } catch (error) {
    // A memory stick or a network share may not support hard links.
    if ((error as NodeJS.ErrnoException).code === 'EEXIST' || existsSync(name)) throw nameTaken(name)
    renameSync(aside, name)
  }
}

/**
 * Throws bad_file for a pipe or a device, also behind a link, such as /dev/stdout, wherever that leads: a caller who
 * names one wants to write into it, and a rename would put a file in its place.
 */
export function refuseDevice(name: string, instead = 'name another'): void {
  const found = statSync(name, { throwIfNoEntry: false })
  const isNamed = found?.isFile() === true && !isDescriptor(name)
  if (!found || isNamed || found.isDirectory()) return
  throw new Problem('bad_file', `${name} is a pipe or a device, and not a file: ${instead}.`)
}

/** The system treats more links in a row as a circle. */
export const LINKS_MAX = 40

/** Whether a name leads to a file that a process has open, as /dev/stdout does. */
function isDescriptor(name: string): boolean {
  let at = resolve(name)
  for (let links = 0; links < LINKS_MAX; links++) {
    if (/^\/(proc|dev\/fd)\//.test(at)) return true
    if (!lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink()) return false
    at = resolve(dirname(at), readlinkSync(at))
  }
  return false
}

export const nameTaken = (name: string): Problem =>
  new Problem(
    'file_exists',
    isFolder(name) ? folderGiven(name) : `${name} already exists; --force replaces it.`,
  )

const isFolder = (name: string): boolean => statSync(name, { throwIfNoEntry: false })?.isDirectory() ?? false

const folderGiven = (name: string): string => `${name} is a folder: name a file in it.`

/** Waits until a file, or a folder's names, are on disk. */
export function sync(path: string): void {
  const descriptor = openNamed(path)
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/** Waits until a folder's names are on disk, where its file system can do that and this user may read it. */
export function syncFolder(folder: string): void {
  try {
    sync(folder)
  } catch (error) {
    if (!UNSYNCABLE.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

const UNSYNCABLE = ['EACCES', 'EPERM', 'EINVAL', 'ENOTSUP', 'EISDIR', 'EBADF']

/** Whether a complete file is gone or empty. A folder that cannot be read, or is another host's, proves nothing. */
export function isLost(file: string, host: string | null): boolean {
  if (host !== null && host !== hostname()) return false
  try {
    accessSync(dirname(file), constants.X_OK)
  } catch {
    return false
  }
  return (statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0
}
