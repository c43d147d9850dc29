// No secret on a command line, where every user of the machine can read it.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { everyCommand } from '../../src/cli/help.ts'
import { createProgram } from '../../src/cli/program.ts'
import { machineAt } from '../../src/machine.ts'
import { capture, T0 } from '../support/service.ts'

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
  // The same name in another command may be another thing.
  for (const { command, name, help } of found)
    assert.match(help, HARMLESS[name] ?? /^$/, `${command} ${name}`)
  assert.deepEqual([...new Set(found.map(({ name }) => name))].sort(), Object.keys(HARMLESS).sort())
})
