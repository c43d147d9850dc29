// What `tranche help WORDS` asks for. The parser takes the first word alone, and forgets one that it does not know.

import type { Command } from 'commander'
import { Problem } from '../../core/problem.ts'

/**
 * The words to parse in place of those that ask for help: of a command that is there, with --help; of one that is not, those
 * that the parser then complains of. Null when no help is asked for. Throws usage for a word behind a command without others.
 */
export function askedHelp(program: Command, argv: readonly string[]): string[] | null {
  if (!argv.includes('help')) return null
  const { operands, unknown } = program.parseOptions([...argv])
  let command = program
  let isAsked = false
  const path: string[] = []
  for (const word of operands) {
    if (word === 'help' && !isAsked && command.commands.length > 0) {
      isAsked = true
      continue
    }
    const next = command.commands.find((one) => one.name() === word)
    if (!next) {
      if (!isAsked) return null
      if (command.commands.length > 0) return [...path, word]
      throw new Problem('usage', `'${path.join(' ')}' has no command '${word}'.`)
    }
    path.push(word)
    command = next
  }
  return isAsked ? [...path, '--help', ...unknown] : null
}
