// No secret on a command line, where every user of the machine can read it.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { everyCommand } from '../../src/cli/every-command.ts'
import { createProgram } from '../../src/cli/program.ts'
import { machineAt } from '../../src/machine.ts'
import { capture } from '../support/command.ts'
import { T0 } from '../support/service.ts'

const SECRET = /key|secret|token|password|credential|bearer/
/** Words of that kind that take no secret, and what the help says of them. */
const HARMLESS: Record<string, RegExp> = {
  '--calls-per-key': /calls of one key/,
  '--key-file': /<file>/,
  '--ops-token-file': /<file>/,
  '--secret-file': /<file>/,
  '--tls-key': /<file>/,
  // The public id of a key, such as key_0123456789abcdef.
  'key-id': /^$/,
}

test('no option and no argument takes a secret: a file does', () => {
  const streams = { out: capture(false), err: capture(false), in: process.stdin }
  const { program } = createProgram({ streams, machine: machineAt(T0).machine, exitWith: () => {} }, () => '')
  const names = new Map<string, string>()
  everyCommand(program, (command) => {
    for (const { long, required, optional, flags, description } of command.options)
      if (required || optional) names.set(long ?? '', `${flags} ${description}`)
    for (const argument of command.registeredArguments) names.set(argument.name(), argument.description)
  })
  assert.ok(names.size > 40, `${names.size} options and arguments`)
  const found = [...names].filter(([name]) => SECRET.test(name))
  assert.deepEqual(found.map(([name]) => name).sort(), Object.keys(HARMLESS).sort())
  for (const [name, help] of found) assert.match(help, HARMLESS[name] ?? /^$/, name)
})
