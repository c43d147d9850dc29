// The commands that write, as the tests of a failing machine run them: the work of each, and the results once it has
// ended.

import assert from 'node:assert/strict'
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { readMigrations } from '../../src/resources.ts'
import { pricesCsv } from '../price/histories.ts'
import { count, filled, trancheHere } from '../store/copies.ts'
import { firstSchemaOf } from '../store/first-schema.ts'

type Command = {
  name: string
  /** Puts the files it needs into the folder of the database. */
  lay?: (file: string, templates: Templates) => void
  argv: (file: string) => string[]
  /** Throws unless all of its work is done. */
  assertDone: (file: string) => void
}
/** Databases to copy: one of the current schema, and one of the first. */
type Templates = { present: string; old: string }

const MONTH = '2026-01'
const PRICES = 300
const beside = (file: string, name: string): string => join(dirname(file), name)

const executions = (file: string): number => count(file, 'executions')

export const COMMANDS: readonly Command[] = [
  {
    name: 'tick',
    argv: () => ['tick', '--price', '60000'],
    assertDone: (file) => assert.equal(executions(file), 2, 'the new window has its first tranche'),
  },
  {
    name: 'sandbox advance',
    argv: () => ['sandbox', 'advance', 'acme', '2d', '--price', '60000'],
    assertDone: (file) => assert.ok(count(file, 'sandboxes where offset_ms >= 2 * 86400000') > 0),
  },
  {
    name: 'billing export',
    lay: (file) => writeFileSync(beside(file, 'export.csv'), 'old'),
    argv: (file) =>
      `billing export --month ${MONTH} --env test --report summary --force --json --output`
        .split(' ')
        .concat(beside(file, 'export.csv')),
    assertDone: (file) => assert.match(readFileSync(beside(file, 'export.csv'), 'utf8'), /^[^\n]*acme/m),
  },
  {
    name: 'backup',
    argv: (file) => ['backup', beside(file, 'copy.db'), '--force'],
    assertDone: (file) => assert.equal(executions(beside(file, 'copy.db')), 1),
  },
  {
    name: 'restore',
    lay: (file, { present }) => copyFileSync(present, beside(file, 'source.db')),
    argv: (file) => ['restore', beside(file, 'source.db')],
    assertDone: (file) => assert.ok(count(file, "audit where action = 'database.restore'") > 0),
  },
  {
    name: 'price import',
    lay: (file) => writeFileSync(beside(file, 'prices.csv'), pricesCsv(PRICES)),
    argv: (file) => ['price', 'import', beside(file, 'prices.csv'), '--json'],
    assertDone: (file) => assert.equal(count(file, "prices where source = 'import'"), PRICES),
  },
  {
    name: 'migrate',
    lay: (file, { old }) => copyFileSync(old, file),
    argv: () => ['migrate'],
    assertDone: (file) => assert.equal(count(file, 'migrations'), readMigrations('sqlite').length),
  },
  {
    name: 'key create',
    argv: () => ['key', 'create', 'acme', '--env', 'test', '--json'],
    assertDone: (file) => assert.ok(count(file, 'api_keys') > 0),
  },
]

let made: Promise<Templates> | undefined

/** Made once in this process, and removed with it. */
function templates(): Promise<Templates> {
  if (made) return made
  const ends: (() => void)[] = []
  process.once('exit', () => {
    for (const end of ends) end()
  })
  made = make({ after: (end) => void ends.push(end as () => void) })
  return made
}

async function make(t: Pick<TestContext, 'after'>): Promise<Templates> {
  const present = await filled(t)
  const old = beside(present, 'old.db')
  firstSchemaOf(present, old)
  return { present, old }
}

/** Puts a command's files into an empty folder, and answers the name of its database. */
export async function lay(command: Command, folder: string): Promise<string> {
  const file = join(folder, 'tranche.db')
  const from = await templates()
  copyFileSync(from.present, file)
  command.lay?.(file, from)
  return file
}

type Ended = { code: number | string; out: string; err: string }

/** Asserts that a command ended properly under a fault: with 0 and its work done, or with 1 and one sentence. */
export function assertClearEnd(ended: Ended, command: Command, file: string): void {
  const said = `${command.name}: ${JSON.stringify(ended)}`
  if (ended.code === 0) {
    command.assertDone(file)
    return
  }
  assert.equal(ended.code, 1, said)
  assert.match(ended.err, /^[^\n]+\n$/, said)
  const sentence = ended.err.startsWith('{') ? JSON.parse(ended.err).error.message : ended.err
  assert.match(sentence, /\w+ .{20,}\n?$/, said)
  assert.doesNotMatch(sentence, /SQLITE_|SqliteError|undefined|\bat \S+:\d+/, said)
  assert.equal(ended.out, '', said)
}

/** Asserts that a failed command left sound data and nothing incomplete, and that it works once the fault is over. */
export async function assertMendsItself(command: Command, file: string): Promise<void> {
  // An old database is checked as it is: every other command would migrate it.
  if (command.name !== 'migrate') await assertSound(file)
  const again = await trancheHere(file, ...command.argv(file))
  assert.equal(again.code, 0, `${command.name} again: ${again.err}`)
  command.assertDone(file)
  await assertSound(file)
  const names = readdirSync(dirname(file))
  assert.ok(!names.some((name) => name.includes('.partial-')), `${command.name} leaves nothing aside`)
  const copies = names.filter((name) => /(replaced-.*Z|before-migration.*start|copy\.db)$/.test(name))
  for (const copy of copies) assert.ok(executions(beside(file, copy)) >= 1, `${basename(copy)} is whole`)
}

async function assertSound(file: string): Promise<void> {
  assert.ok(existsSync(file))
  const { code, out, err } = await trancheHere(file, 'check')
  assert.deepEqual([code, err], [0, ''], out)
}
