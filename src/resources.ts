// Files that travel with the program: beside the source in a checkout, inside the executable when it is built.

import { hash } from 'node:crypto'
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { getAsset, getAssetKeys, getRawAsset, isSea } from 'node:sea'
import { brotliDecompressSync } from 'node:zlib'
import manifest from '../package.json' with { type: 'json' }

const SQL = 'sql/'
const DEPLOY = 'deploy/'

/** The asset with the SHA-256 of every other, computed when the executable is built. */
export const HASHES_ASSET = 'hashes.json'

type Migration = { name: string; text: string; sha256: string }

/** The folders of each store's migrations. SQLite's came first and are at the top. */
const MIGRATIONS = { sqlite: SQL, postgres: `${SQL}postgres/` }
type Dialect = keyof typeof MIGRATIONS

const migrations: Partial<Record<Dialect, readonly Migration[]>> = {}

/** The numbered migrations of a store, in order. Read once: opening a database asks several times. */
export function readMigrations(dialect: Dialect): readonly Migration[] {
  migrations[dialect] ??= findMigrations(MIGRATIONS[dialect])
  return migrations[dialect]
}

function findMigrations(at: string): Migration[] {
  if (isSea()) {
    const names = getAssetKeys().filter((key) => key.startsWith(at) && !key.slice(at.length).includes('/'))
    return names
      .sort()
      .map((key) => ({ name: key.slice(at.length), text: getAsset(key, 'utf8'), sha256: hashOf(key) }))
  }
  const folder = join(import.meta.dirname, '..', at)
  const names = readdirSync(folder).filter((name) => name.endsWith('.sql'))
  return names.sort().map((name) => {
    const text = readFileSync(join(folder, name), 'utf8')
    return { name, text, sha256: hash('sha256', text) }
  })
}

/** The guides, the decisions, the pages they link to, and the programs that readers copy. */
const PAGES = ['docs/**/*.md', 'docs/examples/*/*.{mjs,py}', 'deploy/README.md', 'README.md', 'CHANGELOG.md']

/** The asset with all pages, compressed, and unpacked only when somebody reads one. */
export const PAGES_ASSET = 'pages.json.br'

/** The pages as Markdown and the programs unchanged, by their paths in the source. */
export function readPages(): Record<string, string> {
  const packed = embedded(PAGES_ASSET)
  if (!packed) return findPageFiles(join(import.meta.dirname, '..'))
  return JSON.parse(String(brotliDecompressSync(packed.bytes))) as Record<string, string>
}

/** The pages of the checkout in `root`; the executable is built from them. */
export function findPageFiles(root: string): Record<string, string> {
  const paths = globSync(PAGES, { cwd: root }).map((path) => path.replaceAll('\\', '/'))
  return Object.fromEntries(paths.sort().map((path) => [path, readFileSync(join(root, path), 'utf8')]))
}

/** The text of a file in deploy/: a unit, the crontab, the settings. */
export const readDeployed = (name: string): string =>
  isSea()
    ? getAsset(DEPLOY + name, 'utf8')
    : readFileSync(join(import.meta.dirname, '..', DEPLOY, name), 'utf8')

/** The names of all files in deploy/, including its page and its folders. */
export function deployedNames(): string[] {
  const paths = isSea()
    ? getAssetKeys().filter((key) => key.startsWith(DEPLOY))
    : findDeployed(join(import.meta.dirname, '..'))
  return paths.map((path) => path.slice(DEPLOY.length)).sort()
}

/** The paths of all files in deploy/ of the checkout in `root`; the executable is built with these. */
export const findDeployed = (root: string): string[] =>
  globSync(`${DEPLOY}**/*`, { cwd: root, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).replaceAll('\\', '/'))

/** A file embedded in the executable, read-only; null when running from a checkout. */
export const embedded = (name: string): { bytes: Uint8Array; sha256: string } | null =>
  isSea() ? { bytes: new Uint8Array(getRawAsset(name)), sha256: hashOf(name) } : null

export const VIEWER = 'swagger-ui-dist'
/** The files for a browser: those of the viewer, and our own beside them. All are embedded gzipped. */
const BROWSER_FILES = {
  'swagger-ui-bundle.js': `node_modules/${VIEWER}`,
  'swagger-ui.css': `node_modules/${VIEWER}`,
  'start.js': 'src/http/docs',
  'page.css': 'src/http/docs',
} as const
type BrowserFile = keyof typeof BROWSER_FILES
export const browserFiles = Object.keys(BROWSER_FILES) as BrowserFile[]
export const browserAsset = (name: BrowserFile): string => `browser/${name}.gz`

export const findBrowserFile = (root: string, name: BrowserFile): string =>
  join(root, BROWSER_FILES[name], name)

/** A file for a browser, gzipped, read when it is first needed. */
export async function readBrowserFile(name: BrowserFile): Promise<Uint8Array> {
  const found = embedded(browserAsset(name))
  if (found) return found.bytes
  const { gzipSync } = await import('node:zlib')
  return gzipSync(readFileSync(findBrowserFile(join(import.meta.dirname, '..'), name)))
}

let hashes: Record<string, string> | undefined

/** Looked up, because computing it at every start of a minutely tick would cost more than the tick. */
function hashOf(name: string): string {
  hashes ??= JSON.parse(getAsset(HASHES_ASSET, 'utf8')) as Record<string, string>
  const found = hashes[name]
  if (found === undefined) throw new Error(`the executable was built without a hash of ${name}`)
  return found
}

export const VERSION: string = manifest.version
