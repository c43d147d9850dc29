// What was probably meant otherwise: options that do not exist, and variables that set nothing.

import type { Command } from 'commander'
import { everyCommand } from './every-command.ts'

/** A required option that is missing may be there, misspelt: the parser complains of it first, and of nothing else. */
export function misspelt(program: Command, argv: readonly string[], complaint: string): string {
  if (!/^error: required option/.test(complaint)) return ''
  const known = new Set(['--help'])
  everyCommand(program, ({ options }) => {
    for (const { long } of options) if (long) known.add(long)
  })
  const unknown = argv.find((word) => /^--\w/.test(word) && !known.has(word.split('=')[0] ?? ''))
  return unknown === undefined ? '' : ` (there is no option '${unknown}')`
}

/** A misspelt variable would otherwise be a setting silently not made. */
export function unknownVariables(program: Command, env: NodeJS.ProcessEnv): string[] {
  const known = new Set<string | undefined>(['TRANCHE_CACHE', 'TRANCHE_WEBHOOK_SECRET'])
  everyCommand(program, (command) => {
    for (const option of command.options) known.add(option.envVar)
  })
  return Object.keys(env).filter((name) => name.startsWith('TRANCHE_') && !known.has(name))
}
