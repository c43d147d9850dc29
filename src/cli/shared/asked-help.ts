// What `tranche help WORDS` asks for. The parser looks only at the first word, and drops one that it does not know.

import type { Command } from 'commander'
import { Problem } from '../../core/problem.ts'

/**
 * The words to parse instead of those that ask for help: for a command that exists, its words and --help; for one that
 * does not, the words that the parser then complains about. Null when no help is asked for. Throws usage for a word
 * after a command that has no subcommands.
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
