// The notice that goes with an executable: whose work is in it, and on which terms.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { browserFiles } from '../src/resources.ts'
import { manifestOf } from './bundle.ts'

const RULE = '='.repeat(80)

/** The text of LICENSES.txt. Throws when a bundled package does not say its licence, or brings no text of it. */
export function licenceNotice(packageFolders: readonly string[]): string {
  const parts = [
    'What tranche is made of, besides its own code.',
    part(`Node.js ${process.versions.node}`, nodeLicence()),
    part(`SQLite ${sqliteVersion(packageFolders)}`, SQLITE),
    ...[...new Set(packageFolders.map(packagePart))].sort(),
  ]
  return `${parts.join('\n\n')}\n`
}

const part = (title: string, text: string): string => `${RULE}\n${title}\n${RULE}\n\n${text.trim()}`

const SQLITE = `SQLite is in the public domain: its authors have dedicated the code to it. See https://sqlite.org/copyright.html`

function packagePart(folder: string): string {
  const { name, version, license } = manifestOf(folder)
  if (typeof license !== 'string' || license === 'UNLICENSED') throw new Error(`${name} states no licence`)
  const own = licenceIn(folder)
  if (own === undefined) throw new Error(`${name} brings no text of its licence, ${license}`)
  const texts = [own, ...further(folder).map((entry) => readFileSync(join(folder, entry), 'utf8'))]
  return part(`${name} ${version} (${license})`, texts.map((text) => text.trim()).join('\n\n'))
}

/** From the file of that name, else from the section of that name that ends the README. */
function licenceIn(folder: string): string | undefined {
  const entries = readdirSync(folder)
  const file = entries.find((entry) => /^(licen[cs]e|copying)/i.test(entry))
  if (file !== undefined) return readFileSync(join(folder, file), 'utf8')
  const readme = entries.find((entry) => /^readme\.md$/i.test(entry))
  const section = /^## licen[cs]e\n([\s\S]*\bcopyright\b[\s\S]*)$/im
  return readme && section.exec(readFileSync(join(folder, readme), 'utf8'))?.[1]
}

/** What a package asks to be passed on, and whose work is in the files that are taken from it as they are. */
const further = (folder: string): string[] =>
  readdirSync(folder).filter(
    (entry) => entry === 'NOTICE' || browserFiles.some((name) => entry === `${name}.LICENSE.txt`),
  )

/** Node's own, which lists the libraries inside it as well; it lies above the binary that runs this. */
function nodeLicence(): string {
  const folder = dirname(dirname(process.execPath))
  const file = ['LICENSE', 'share/doc/node/LICENSE', 'share/doc/nodejs/LICENSE']
    .map((path) => join(folder, path))
    .find(existsSync)
  if (file === undefined) throw new Error(`no LICENSE of Node in ${folder}`)
  return readFileSync(file, 'utf8')
}

/** Of the SQLite inside better-sqlite3, which must be among the folders. */
export function sqliteVersion(packageFolders: readonly string[]): string {
  const driver = packageFolders.find((folder) => folder.endsWith('/better-sqlite3'))
  const header = join(driver ?? '', 'deps/sqlite3/sqlite3.h')
  const version = /#define SQLITE_VERSION +"([\d.]+)"/.exec(readFileSync(header, 'utf8'))?.[1]
  if (version === undefined) throw new Error(`${header} says no version`)
  return version
}
