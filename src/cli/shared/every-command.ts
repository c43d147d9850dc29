// A walk over the command tree.

import type { Command } from 'commander'

/** Visits a command and all below it; the path of the one given is empty, that of `key create` has two words. */
export function everyCommand(
  command: Command,
  visit: (command: Command, path: readonly string[]) => void,
  path: readonly string[] = [],
): void {
  visit(command, path)
  for (const inner of command.commands) everyCommand(inner, visit, [...path, inner.name()])
}
