// The native SQLite addon. From a checkout better-sqlite3 finds its own; the executable carries it as an asset and
// unpacks it once, because the system loads shared libraries from files only.

import { createHash, randomUUID } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { embedded } from '../../resources.ts'

export const ADDON_ASSET = 'better_sqlite3.node'

let loaded: object | undefined

/** The addon to hand to better-sqlite3, or undefined to let it look for its own. */
export function nativeBinding(): object | undefined {
  if (loaded) return loaded
  const bytes = embedded(ADDON_ASSET)
  if (!bytes) return undefined
  const module: { exports: object } = { exports: {} }
  process.dlopen(module, unpack(bytes))
  loaded = module.exports
  return loaded
}

/** Where the addon is unpacked: `TRANCHE_CACHE`, else the user's cache folder, else one of ours in the temporary folder. */
function cacheFolders(): string[] {
  const uid = process.getuid?.() ?? 'user'
  const own = process.env.TRANCHE_CACHE
  const user = process.env.XDG_CACHE_HOME ?? (process.env.HOME ? join(homedir(), '.cache') : undefined)
  const folders = [own, user && join(user, 'tranche'), join(tmpdir(), `tranche-${uid}`)]
  return folders.filter((folder): folder is string => typeof folder === 'string' && folder !== '')
}

function unpack(bytes: Uint8Array): string {
  const hash = sha256(bytes)
  const failures: string[] = []
  for (const folder of cacheFolders()) {
    try {
      return unpackInto(folder, `better_sqlite3-${hash}.node`, bytes, hash)
    } catch (error) {
      failures.push(`${folder}: ${(error as Error).message}`)
    }
  }
  throw new Error(`no folder to unpack the SQLite addon into; set TRANCHE_CACHE (${failures.join('; ')})`)
}

function unpackInto(folder: string, name: string, bytes: Uint8Array, hash: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const stat = statSync(folder)
  // Code is loaded from here: a folder that another user owns or can write to is not to be trusted.
  if (process.getuid && stat.uid !== process.getuid()) throw new Error('belongs to another user')
  if (process.platform !== 'win32' && (stat.mode & 0o077) !== 0) chmodSync(folder, 0o700)
  const file = join(folder, name)
  if (isIntact(file, hash)) return file
  // Written aside and renamed, so that two first starts at once never load half a file.
  const aside = join(folder, `.${randomUUID()}`)
  writeFileSync(aside, bytes, { mode: 0o600, flag: 'wx' })
  renameSync(aside, file)
  return file
}

function isIntact(file: string, hash: string): boolean {
  try {
    return sha256(readFileSync(file)) === hash
  } catch {
    return false
  }
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
