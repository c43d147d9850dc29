// Rules for the sources, and their exceptions: files that are opened, options that take a secret.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { everyCommand } from '../../src/cli/help.ts'
import { createProgram } from '../../src/cli/program.ts'
import { machineAt } from '../../src/machine.ts'
import { capture, T0 } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')

/** Every file of src that opens one by its name, under the reason why that is safe. */
const SAFE: Record<string, string[]> = {
  'the mechanism itself': ['plain-file.ts'],
  'a plain file, made or looked at first, or a new random name': [
    'store/sqlite/copy-file.ts',
    'store/sqlite/file/files.ts',
    'store/sqlite/file/locks.ts',
    'store/sqlite/file/restore.ts',
    'store/sqlite/file/wal.ts',
    'store/sqlite/file/whole-copy.ts',
    'whole-file.ts',
  ],
  'looked at first; a second descriptor is closed after that of SQLite, which would lose its locks': [
    'store/sqlite/open.ts',
  ],
  'its callers have looked at the database, and it looks at what lies beside': [
    'store/sqlite/file/connection.ts',
  ],
  'the file that this process has open, by device and inode': ['store/sqlite/file/checkpoint-thread.ts'],
  'in a folder, or under a name, that only we or root can change': [
    'addon.ts',
    'store/sqlite/file/errors.ts',
    'resources.ts',
  ],
  'a plain file, replaced under a new random name or only read': [
    'cli/init/steps.ts',
    'cli/installed.ts',
    'cli/trial/backtest.ts',
  ],
  'a person named it, and it is only read': [
    'cli/billing/against.ts',
    'cli/input-file.ts',
    'price/history-file.ts',
    'store/postgres/server/session.ts',
    'webhook/send.ts',
  ],
  'the file is new, and no link is followed below the folder': ['cli/reference/docs.ts'],
  'never a link or the file of somebody else; owner and mode through the descriptor': [
    'cli/init/file-steps.ts',
  ],
}

/** Calls that open a file by its name: of Node, of SQLite, and our own that others use. */
const OPENS =
  /(?<![.\w])(?:openSync|open|readFileSync|readFile|writeFileSync|writeFile|appendFileSync|appendFile|copyFileSync|cpSync|truncateSync|createReadStream|createWriteStream|openFile|openPlain|withPlain|openNamed|openUnlinked|createPrivate|new FileDatabase)\(/
/** Names that only look like them: a method of the stores, or a closure. */
const OWN_NAMES = /function open\(|open\(tenant|open\(tx|async open\(|^\s+open\(|\bopen\(\)/

const opens = (text: string): boolean =>
  text
    .split('\n')
    .some((line) => !/^\s*(\/\/|\*|\/\*)/.test(line) && !OWN_NAMES.test(line) && OPENS.test(line))

test('each file that opens one by name is on the list with what makes that safe, and no other', () => {
  const opening = globSync('src/**/*.ts', { cwd: ROOT }).filter((file) =>
    opens(readFileSync(join(ROOT, file), 'utf8')),
  )
  const listed = Object.values(SAFE).flatMap((files) => files.map((file) => `src/${file}`))
  assert.deepEqual(listed.toSorted(), opening.toSorted())
})

// No secret on a command line, where every user of the machine can read it.

const SECRET = /key|secret|token|password|credential|bearer/
/** Words of that kind that take no secret, and their help texts. */
const HARMLESS: Record<string, RegExp> = {
  '--calls-per-key': /calls of one key/,
  // Of an order: the partner has it from the instruction.
  '--idempotency-key': /the idempotency key it was ordered under/,
  '--key-file': /<file>/,
  '--ops-token-file': /<file>/,
  '--secret-file': /<file>/,
  '--tls-key': /<file>/,
  // The public id of a key, such as key_0123456789abcdef.
  'key-id': /^$/,
}

test('no option and no argument takes a secret: a file does', () => {
  const streams = { out: capture(false), err: capture(false), in: process.stdin }
  const { program } = createProgram(
    { streams, machine: machineAt(T0).machine, exitWith: () => {}, endSoon: () => {} },
    { remark: () => '', json: false },
  )
  const all: { command: string; name: string; help: string }[] = []
  everyCommand(program, ({ options, registeredArguments }, path) => {
    const command = path.join(' ')
    for (const { long, required, optional, flags, description } of options)
      if (required || optional) all.push({ command, name: long ?? '', help: `${flags} ${description}` })
    for (const argument of registeredArguments)
      all.push({ command, name: argument.name(), help: argument.description })
  })
  assert.ok(all.length > 100, `${all.length} options and arguments`)
  const found = all.filter(({ name }) => SECRET.test(name))
  // An equal name in another command may mean something else.
  for (const { command, name, help } of found)
    assert.match(help, HARMLESS[name] ?? /^$/, `${command} ${name}`)
  assert.deepEqual([...new Set(found.map(({ name }) => name))].sort(), Object.keys(HARMLESS).sort())
})
