// Files that travel with the program: beside the source in a checkout, inside the executable when it is built.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { getAsset, getAssetKeys, isSea } from 'node:sea'

const SQL = 'sql/'

/** The numbered migrations, in order. */
export function readMigrations(): { name: string; text: string }[] {
  if (isSea()) {
    const names = getAssetKeys().filter((key) => key.startsWith(SQL))
    return names.sort().map((key) => ({ name: key.slice(SQL.length), text: getAsset(key, 'utf8') }))
  }
  const folder = join(import.meta.dirname, '..', SQL)
  const names = readdirSync(folder).filter((name) => name.endsWith('.sql'))
  return names.sort().map((name) => ({ name, text: readFileSync(join(folder, name), 'utf8') }))
}

/** A file embedded in the executable; null when running from a checkout. */
export const embedded = (name: string): Uint8Array | null => (isSea() ? new Uint8Array(getAsset(name)) : null)
