// Completion scripts, made from the command tree. A script is self-contained: completing never starts the program.

import { Argument, Command } from 'commander'
import { unreachable } from '../core/assert.ts'
import { type Place, placesOf } from './completion/places.ts'
import type { Cli } from './context.ts'
import { print } from './terminal/print.ts'

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
