// No value that is given may be empty: a blank variable or flag is a mistake, and does not mean "none".

import { type Command, InvalidArgumentError } from 'commander'
import { Problem } from '../../core/problem.ts'

/** Makes an empty value of any option or argument a usage error, from the flag and from its variable. */
export function refuseEmpty(command: Command): void {
  const valued = command.options.filter(({ required, optional }) => required || optional)
  for (const word of [...valued, ...command.registeredArguments]) word.argParser(filled(word.parseArg))
}

type Parse = (text: string, previous: unknown) => unknown

const filled =
  (parse: Parse | undefined): Parse =>
  (text, previous) => {
    if (text.trim() === '') throw new InvalidArgumentError('It must not be empty.')
    const value = parse === undefined ? text : parse(text, previous)
    // The parser would give the command an empty text instead.
    if (value === null || value === undefined) throw new Error(`${JSON.stringify(text)} was read as nothing`)
    return value
  }

/** The variables that belong to no option. */
export const NO_OPTIONS = ['TRANCHE_CACHE', 'TRANCHE_WEBHOOK_SECRET'] as const

/** Throws usage when one of those is set but empty; the parser complains about the others. */
export function refuseEmptyVariables(env: NodeJS.ProcessEnv): void {
  const empty = NO_OPTIONS.find((name) => env[name]?.trim() === '')
  if (empty !== undefined) throw new Problem('usage', `${empty} must not be empty.`)
}
