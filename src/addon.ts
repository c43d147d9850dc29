// The native SQLite addon. From a checkout better-sqlite3 finds its own; the executable carries it as an asset and
// unpacks it once, because the system loads shared libraries from files only.

import { randomUUID } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, isAbsolute, join } from 'node:path'
import { reasonInWords } from './core/problem.ts'
import { embedded } from './resources.ts'

export const ADDON_ASSET = 'better_sqlite3.node'

let loaded: object | undefined

/** The addon for better-sqlite3, or undefined to let it look for its own. */
export function nativeBinding(): object | undefined {
  if (loaded) return loaded
  const addon = embedded(ADDON_ASSET)
  if (!addon) return undefined
  loaded = load(addon)
  return loaded
}

/**
 * Folders where the addon may be kept: `TRANCHE_CACHE`, the user's cache folder, one of ours in the temporary folder.
 * sudo may leave HOME unchanged: then the home is somebody else's, and root's files in it would lock its owner out.
 */
function cacheFolders(): string[] {
  const { TRANCHE_CACHE: own, XDG_CACHE_HOME: cache, HOME: home } = process.env
  const usual = cache || (home && join(home, '.cache'))
  const folders = [
    own,
    usual && isOwnPlace(usual) ? join(usual, 'tranche') : undefined,
    join(tmpdir(), `tranche-${process.getuid?.() ?? 'user'}`),
  ]
  return folders.filter((folder) => folder !== undefined && isAbsolute(folder)) as string[]
}

/** Whether the folder, or the nearest existing one above it, belongs to this user. */
function isOwnPlace(folder: string): boolean {
  const uid = process.getuid?.()
  if (uid === undefined || !isAbsolute(folder)) return true
  let there = folder
  while (!existsSync(there)) there = dirname(there)
  return lstatSync(realpathSync(there)).uid === uid
}

/** Loads from the first cache folder that can be written, trusted and executed from, else from one for this process. */
function load({ bytes, sha256 }: { bytes: Uint8Array; sha256: string }): object {
  const refused: string[] = []
  for (const folder of cacheFolders()) {
    try {
      return dlopen(unpackInto(folder, bytes, sha256))
    } catch (error) {
      refused.push(`${folder}: ${reasonInWords(error)}`)
    }
  }
  try {
    return loadOnce(bytes)
  } catch (error) {
    refused.push(`${tmpdir()}: ${reasonInWords(error)}`)
    throw new Error(
      `The SQLite addon could not be unpacked; set TRANCHE_CACHE to a folder of your own (${refused.join('; ')}).`,
    )
  }
}

/** Loads from a folder made for this process alone and removed at once. Throws where others could swap that folder. */
function loadOnce(bytes: Uint8Array): object {
  const around = realpathSync(tmpdir())
  refuseOpenPlace(around)
  const folder = mkdtempSync(join(around, 'tranche-'))
  try {
    const file = join(folder, ADDON_ASSET)
    writeFileSync(file, bytes, { mode: 0o600, flag: 'wx' })
    return dlopen(file)
  } finally {
    // Windows keeps a loaded library from being removed.
    if (process.platform !== 'win32') rmSync(folder, { recursive: true, force: true })
  }
}

function dlopen(file: string): object {
  const module: { exports: object } = { exports: {} }
  process.dlopen(module, file)
  return module.exports
}

function unpackInto(wanted: string, bytes: Uint8Array, hash: string): string {
  // Two levels and no more: asked to create all of them, Node never returns where the system allows none (/proc).
  if (!existsSync(dirname(wanted))) mkdirSync(dirname(wanted), { mode: 0o700 })
  // Links above it are resolved once: somebody may change one after it has been checked.
  const around = realpathSync(dirname(wanted))
  refuseOpenPlace(around)
  const folder = join(around, basename(wanted))
  if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 })
  refuseUntrusted(folder)
  const file = join(folder, `better_sqlite3-${hash}.node`)
  if (isIntact(file, bytes)) return file
  // Written aside and renamed, so that two first starts at once never load half a file.
  const aside = join(folder, `.${randomUUID()}`)
  try {
    writeFileSync(aside, bytes, { mode: 0o600, flag: 'wx' })
    renameSync(aside, file)
  } finally {
    rmSync(aside, { force: true })
  }
  return file
}

/** Throws for a folder that is not ours, because code is loaded from it; closes to others one that is merely open. */
function refuseUntrusted(folder: string): void {
  const uid = process.getuid?.()
  if (uid === undefined) return
  const stat = lstatSync(folder)
  if (!stat.isDirectory()) throw new Error('is not a folder, or is a link to one')
  if (stat.uid !== uid) throw new Error('belongs to another user')
  if ((stat.mode & 0o077) !== 0) chmodSync(folder, 0o700)
}

/** Throws when somebody else could replace one of the folders in `folder`, a path without links. */
function refuseOpenPlace(folder: string): void {
  const uid = process.getuid?.()
  if (uid === undefined) return
  for (let place = folder; ; place = dirname(place)) {
    const { uid: owner, mode } = lstatSync(place)
    const isOpen = (mode & 0o022) !== 0 && (mode & 0o1000) === 0
    if ((owner !== uid && owner !== 0) || isOpen) throw new Error(`${place} can be changed by others`)
    if (place === dirname(place)) return
  }
}

/**
 * Whether the file is a whole copy that nobody else can change before the loading. It is compared byte by byte with the
 * one in the executable at every start: that proves more than its hash, and takes a tenth of the time.
 */
function isIntact(file: string, bytes: Uint8Array): boolean {
  try {
    const stat = lstatSync(file)
    const uid = process.getuid?.()
    if (!stat.isFile() || (uid !== undefined && (stat.uid !== uid || (stat.mode & 0o022) !== 0))) return false
    return stat.size === bytes.length && readFileSync(file).equals(bytes)
  } catch {
    return false
  }
}
