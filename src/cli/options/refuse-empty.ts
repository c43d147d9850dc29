// No value that is given may be empty: a blank variable or flag is a mistake, and does not mean "none".

import { type Command, InvalidArgumentError } from 'commander'

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
