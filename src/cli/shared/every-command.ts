// A walk over the command tree.

import type { Command } from 'commander'

/**
 * Visits a command and all its subcommands; the path of the given one is empty, and that of `key create` has two words.
 */
export function everyCommand(
  command: Command,
  visit: (command: Command, path: readonly string[]) => void,
  path: readonly string[] = [],
): void {
  visit(command, path)
  for (const inner of command.commands) everyCommand(inner, visit, [...path, inner.name()])
}
