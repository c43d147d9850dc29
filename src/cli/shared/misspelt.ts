// What was probably misspelt: options that do not exist, and variables that set nothing.

import type { Command } from 'commander'
import { NO_OPTIONS } from '../options/refuse-empty.ts'
import { everyCommand } from './every-command.ts'

/** A missing required option may be there, but misspelt: the parser complains only about the missing one. */
export function misspelt(program: Command, argv: readonly string[], complaint: string): string {
  if (!/^error: required option/.test(complaint)) return ''
  const known = new Set(['--help'])
  everyCommand(program, ({ options }) => {
    for (const { long } of options) if (long) known.add(long)
  })
  const unknown = argv.find((word) => /^--\w/.test(word) && !known.has(word.split('=')[0] ?? ''))
  return unknown === undefined ? '' : ` (there is no option '${unknown}')`
}

/** Otherwise, a misspelt variable would silently set nothing. */
export function unknownVariables(program: Command, env: NodeJS.ProcessEnv): string[] {
  const known = new Set<string | undefined>(NO_OPTIONS)
  everyCommand(program, (command) => {
    for (const option of command.options) known.add(option.envVar)
  })
  return Object.keys(env).filter((name) => name.startsWith('TRANCHE_') && !known.has(name))
}
