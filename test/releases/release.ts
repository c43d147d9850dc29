// A release as its users have it: the database it wrote, and its outputs at that time. One folder per version in
// fixtures/releases, made once by that version and never again:
//
//   node bin/with-node.mjs --import tsx test/releases/release.ts fixtures/releases/VERSION

import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { openShell, type Shell, succeed } from '../support/service.ts'
import { playSequel, playStory } from './story.ts'

const SEED = 1
const DATABASE = 'tranche.db.gz'
const SAID = 'said.json.gz'
/** The release's migrations, of both stores: later ones may only add to the schema. */
export const MIGRATIONS = 'migrations.txt'
export const MONTHS = ['2026-01', '2026-02']

/** Outputs that must not change: the bytes of these files, and every field of these lists and answers. */
const EXPORTS = [
  ...MONTHS.flatMap((month) => ['summary', 'users', 'trades'].map((report) => ({ month, report }))),
  // Since 1.0.0. The invoices of both months were issued in March.
  { month: '2026-02', report: 'adjustments' },
  { month: '2026-03', report: 'invoices' },
].map(({ month, report }) => ({ file: `${month}-${report}.csv`, month, report }))
const LISTS: Record<string, string[]> = {
  partners: ['partner', 'list'],
  users: ['user', 'list', 'acme', '--env', 'live'],
  plans: ['plan', 'list'],
  executions: ['execution', 'list'],
  'late-fills': ['execution', 'late-fills'],
  tiers: ['tier', 'list'],
  audit: ['audit'],
  issued: ['billing', 'issued', '--from', '2026-01', '--to', '2026-03'],
  adjustments: ['billing', 'adjustments', '--from', '2026-01', '--to', '2026-03'],
}
const ANSWERS = [
  '/me',
  '/plans?limit=1000',
  '/webhooks',
  ...MONTHS.map((month) => `/trades?month=${month}&limit=1000`),
  ...MONTHS.flatMap((month) => [`/billing/monthly?month=${month}`, `/billing/monthly/users?month=${month}`]),
]

export type Said = {
  /** By the name of the file: CSV as it was exported. */
  exports: Record<string, string>
  /** By the name of the list, or key and path: JSON. */
  lists: Record<string, unknown>
  answers: Record<string, unknown>
}

/** Reads the stored data of a release with the current program. */
export async function ask(shell: Shell, keys: readonly string[]): Promise<Said> {
  const said: Said = { exports: {}, lists: {}, answers: {} }
  for (const { file, month, report } of EXPORTS)
    said.exports[file] = await succeed(shell, 'billing', 'export', '--month', month, '--report', report)
  for (const [name, argv] of Object.entries(LISTS))
    said.lists[name] = JSON.parse(await succeed(shell, ...argv, '--json'))
  for (const [i, key] of keys.entries())
    for (const path of ANSWERS)
      said.answers[`${i} ${path}`] = JSON.parse((await shell.call('GET', `/partner/v1${path}`, key)).text)
  return said
}

/** Copies the database of a release to the shell's place. Resolves with its keys and its outputs at that time. */
export function lay(folder: string, shell: Shell): { keys: string[]; said: Said } {
  const read = (name: string): string => readFileSync(join(folder, name), 'utf8')
  const unzipped = (name: string): Buffer => gunzipSync(readFileSync(join(folder, name)))
  writeFileSync(shell.file, unzipped(DATABASE), { mode: 0o600 })
  // A release has the reports that existed then.
  const kept = EXPORTS.filter(({ file }) => existsSync(join(folder, file)))
  const exports = Object.fromEntries(kept.map(({ file }) => [file, read(file)]))
  const { keys, now, lists, answers } = JSON.parse(unzipped(SAID).toString()) as Omit<Said, 'exports'> & {
    keys: string[]
    now: number
  }
  shell.advance(now - shell.machine.clock())
  return { keys, said: { exports, lists, answers } }
}

async function make(folder: string): Promise<void> {
  // Throws where the folder exists: a release is never made again.
  mkdirSync(folder)
  const cleanUps: (() => unknown)[] = []
  const shell = openShell({ after: (clean) => void cleanUps.push(clean as () => unknown) })
  const { keys } = await playStory(shell, SEED)
  await playSequel(shell, keys)
  const { exports, lists, answers } = await ask(shell, keys)
  const copy = join(shell.folder, 'copy.db')
  await succeed(shell, 'backup', copy)
  writeFileSync(join(folder, DATABASE), gzipSync(readFileSync(copy), { level: 9 }))
  for (const [file, text] of Object.entries(exports)) writeFileSync(join(folder, file), text)
  const said = { keys, now: shell.machine.clock(), lists, answers }
  writeFileSync(join(folder, SAID), gzipSync(JSON.stringify(said), { level: 9 }))
  const migrations = globSync('sql/**/*.sql', { cwd: join(import.meta.dirname, '../..') }).sort()
  writeFileSync(join(folder, MIGRATIONS), `${migrations.join('\n')}\n`)
  for (const clean of cleanUps.reverse()) await clean()
}

const [script, folder] = process.argv.slice(1)
if (script === import.meta.filename && folder !== undefined) await make(folder)
