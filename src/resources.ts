// Files that travel with the program: beside the source in a checkout, inside the executable when it is built.

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { getAsset, getAssetKeys, getRawAsset, isSea } from 'node:sea'

const SQL = 'sql/'
const DEPLOY = 'deploy/'

/** The asset with the SHA-256 of every other, computed when the executable is built. */
export const HASHES_ASSET = 'hashes.json'

export type Migration = { name: string; text: string; sha256: string }

let migrations: readonly Migration[] | undefined

/** The numbered migrations, in order. Read once: opening a database asks several times. */
export function readMigrations(): readonly Migration[] {
  migrations ??= findMigrations()
  return migrations
}

function findMigrations(): Migration[] {
  if (isSea()) {
    const names = getAssetKeys().filter((key) => key.startsWith(SQL))
    return names
      .sort()
      .map((key) => ({ name: key.slice(SQL.length), text: getAsset(key, 'utf8'), sha256: hashOf(key) }))
  }
  const folder = join(import.meta.dirname, '..', SQL)
  const names = readdirSync(folder).filter((name) => name.endsWith('.sql'))
  return names.sort().map((name) => {
    const text = readFileSync(join(folder, name), 'utf8')
    return { name, text, sha256: createHash('sha256').update(text).digest('hex') }
  })
}

/** The text of a file in deploy/: a unit, the crontab, the settings. */
export const readDeployed = (name: string): string =>
  isSea()
    ? getAsset(DEPLOY + name, 'utf8')
    : readFileSync(join(import.meta.dirname, '..', DEPLOY, name), 'utf8')

/** A file embedded in the executable, to be read only; null when running from a checkout. */
export const embedded = (name: string): { bytes: Uint8Array; sha256: string } | null =>
  isSea() ? { bytes: new Uint8Array(getRawAsset(name)), sha256: hashOf(name) } : null

let hashes: Record<string, string> | undefined

/** Looked up, not computed: at every start of a minutely pass it would cost more than the pass. */
function hashOf(name: string): string {
  hashes ??= JSON.parse(getAsset(HASHES_ASSET, 'utf8')) as Record<string, string>
  const hash = hashes[name]
  if (hash === undefined) throw new Error(`the executable was built without a hash of ${name}`)
  return hash
}
