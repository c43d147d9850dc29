// Completion scripts, made from the command tree. A script holds all it needs: completing never starts the program.

import { Argument, Command, type Option } from 'commander'
import { unreachable } from '../core/assert.ts'
import { type Cli, print } from './context.ts'

/** One command as a completion sees it. The path is empty for the program, "/key/create" for a command of a noun. */
export type Place = {
  path: string
  commands: Word[]
  options: Flag[]
  /** What its first argument may be, where that is a closed list. */
  choices: readonly string[]
}
export type Word = { name: string; description: string }
export type Flag = Word & { takesValue: boolean; choices: readonly string[] }

const SHELLS = ['bash', 'zsh', 'fish'] as const

export function completionCommand(cli: Cli, program: Command): Command {
  return new Command('completion')
    .description('print a script that completes commands and options in your shell')
    .addArgument(new Argument('<shell>', 'the shell it is for').choices(SHELLS))
    .action(async (shell: (typeof SHELLS)[number]) => {
      const script = (await scriptOf(shell))(placesOf(program)).trimEnd()
      print(cli, { shell, script }, () => script)
    })
}

/** Loaded when asked for: a start needs none of them. */
async function scriptOf(shell: (typeof SHELLS)[number]): Promise<(places: Place[]) => string> {
  switch (shell) {
    case 'bash':
      return (await import('./completion/bash.ts')).bashScript
    case 'zsh':
      return (await import('./completion/zsh.ts')).zshScript
    case 'fish':
      return (await import('./completion/fish.ts')).fishScript
    default:
      return unreachable(shell)
  }
}

export function placesOf(program: Command): Place[] {
  const globals = flagsOf(program)
  const visit = (command: Command, path: string): Place[] => [
    {
      path,
      commands: command.commands.map((inner) => ({
        name: inner.name(),
        description: oneLine(inner.description()),
      })),
      options: [...(command === program ? [] : flagsOf(command)), ...globals, HELP],
      choices: command.registeredArguments[0]?.argChoices ?? [],
    },
    ...command.commands.flatMap((inner) => visit(inner, `${path}/${inner.name()}`)),
  ]
  return visit(program, '')
}

/** The flags of any command that are followed by a value: the word after one is no command. */
export function valueFlags(places: readonly Place[]): string[] {
  const flags = places.flatMap(({ options }) => options).filter(({ takesValue }) => takesValue)
  return [...new Set(flags.map(({ name }) => name))].sort()
}

const HELP: Flag = { name: '--help', description: 'show what it takes', takesValue: false, choices: [] }

const flagsOf = (command: Command): Flag[] =>
  command.options
    .filter(({ hidden }) => !hidden)
    .map((option: Option) => ({
      name: option.long ?? option.flags,
      description: oneLine(option.description),
      takesValue: option.required || option.optional,
      choices: option.argChoices ?? [],
    }))

const oneLine = (text: string): string => text.replace(/\s+/g, ' ')
