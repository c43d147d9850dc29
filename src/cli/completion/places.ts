// What can be typed where: the command tree, as the completion scripts see it.

import type { Command, Option } from 'commander'
import { everyCommand } from '../shared/every-command.ts'

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

export function placesOf(program: Command): Place[] {
  const globals = flagsOf(program)
  const places: Place[] = []
  everyCommand(program, (command, words) => {
    places.push({
      path: words.map((word) => `/${word}`).join(''),
      commands: command.commands.map((inner) => ({
        name: inner.name(),
        description: oneLine(inner.description()),
      })),
      options: [...(command === program ? [] : flagsOf(command)), ...globals, HELP],
      choices: command.registeredArguments[0]?.argChoices ?? [],
    })
  })
  return places
}

/** The flags of any command that are followed by a value: the word after one is not a command. */
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
