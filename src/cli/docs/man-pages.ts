// The man pages: of the program and each command (section 1), from the command tree and its help; of each guide (7).

import type { Command } from 'commander'
import { VERSION } from '../../version.ts'
import { everyCommand } from '../shared/every-command.ts'
import { GROUPS, type Help, helpOf } from '../shared/help-text.ts'
import { manGuide } from './man-guide.ts'
import { isListed, type Page } from './pages.ts'
import { argument, bold, escaped, italic, item, pageOf, titleLines, verbatim } from './roff.ts'

export type ManPage = { name: string; section: 1 | 7; text: string }

export function manPages(program: Command, guides: readonly Page[]): ManPage[] {
  const topics = guides.filter(isListed)
  return [
    { name: 'tranche', section: 1, text: programPage(program, topics) },
    ...program.commands.map((command) => {
      return { name: `tranche-${command.name()}`, section: 1 as const, text: commandPage(command) }
    }),
    ...topics.map((guide) => {
      return { name: `tranche-${guide.topic}`, section: 7 as const, text: manGuide(guide, guides) }
    }),
  ]
}

function programPage(program: Command, guides: readonly Page[]): string {
  const groups = GROUPS.flatMap(({ heading, commands }) => [
    `.SS ${argument(heading.replace(/:$/, ''))}`,
    ...program.commands
      .filter((command) => commands.includes(command.name()))
      .flatMap((command) =>
        item(reference(`tranche-${command.name()}`, 1), [escaped(command.description())]),
      ),
  ])
  return manPage('tranche', program.description(), [
    '.SH SYNOPSIS',
    usageOf(program),
    '.SH COMMANDS',
    ...groups,
    ...section('.SH OPTIONS', optionsOf(program)),
    ...environmentOf(program),
    ...helpLines(helpOf([]), '.SH'),
    '.SH SEE ALSO',
    `${guides.map(({ topic }) => reference(`tranche-${topic}`, 7)).join(', ')}`,
  ])
}

function commandPage(command: Command): string {
  const parts: string[] = []
  const usages: string[] = []
  everyCommand(command, (one, path) => {
    const words = [command.name(), ...path]
    const isWhole = path.length === 0
    if (one.commands.length === 0) usages.push(usageOf(one))
    if (!isWhole) parts.push(`.SH ${argument(words.join(' '))}`, escaped(sentence(one.description())))
    const rank = isWhole ? '.SH' : '.SS'
    parts.push(
      ...section(`${rank} ARGUMENTS`, argumentsOf(one)),
      ...section(`${rank} OPTIONS`, optionsOf(one)),
    )
    // The examples of a command of commands are those of its commands.
    if (one.commands.length === 0) parts.push(...helpLines(helpOf(words), rank))
  })
  return manPage(`tranche-${command.name()}`, command.description(), [
    '.SH SYNOPSIS',
    usages.join('\n.br\n'),
    ...parts,
    '.SH SEE ALSO',
    `${reference('tranche', 1)} for the options of every command, ${reference('tranche-docs', 1)}`,
  ])
}

const manPage = (name: string, description: string, lines: readonly string[]): string =>
  pageOf([
    ...titleLines(name, 1, VERSION),
    '.SH NAME',
    `${escaped(name)} \\- ${escaped(description)}`,
    ...lines,
  ])

const section = (heading: string, lines: readonly string[]): string[] =>
  lines.length === 0 ? [] : [heading, ...lines]

const reference = (name: string, number: number): string => `${bold(escaped(name))}(${number})`

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`

/** "tranche key create [options] <slug>", with what is to be typed as it is in bold. */
function usageOf(command: Command): string {
  const words = command.createHelp().commandUsage(command).split(' ')
  return words.map((word) => (/^[[<]/.test(word) ? italic(escaped(word)) : bold(escaped(word)))).join(' ')
}

function argumentsOf(command: Command): string[] {
  const help = command.createHelp()
  return help
    .visibleArguments(command)
    .flatMap((one) => item(italic(escaped(help.argumentTerm(one))), [escaped(help.argumentDescription(one))]))
}

function optionsOf(command: Command): string[] {
  const help = command.createHelp()
  // What every command takes is on the page of the program.
  const own = help.visibleOptions(command).filter(({ long }) => command.parent === null || long !== '--help')
  return own.flatMap((one) =>
    item(bold(escaped(help.optionTerm(one))), [escaped(help.optionDescription(one))]),
  )
}

/** Each variable that stands for an option, once. */
function environmentOf(program: Command): string[] {
  const variables = new Map<string, string[]>()
  everyCommand(program, (command, path) => {
    for (const { envVar, long } of command.options)
      if (envVar) variables.set(envVar, [...(variables.get(envVar) ?? []), [...path, long].join(' ')])
  })
  const items = [...variables].sort().flatMap(([name, options]) => {
    return item(bold(escaped(name)), [`The same as ${options.map((one) => bold(escaped(one))).join(', ')}.`])
  })
  return ['.SH ENVIRONMENT', ...items]
}

function helpLines(help: Help | undefined, rank: string): string[] {
  if (!help) return []
  const { examples, exits } = help
  return [
    ...(exits === undefined ? [] : [`${rank} "EXIT STATUS"`, escaped(exits)]),
    `${rank} EXAMPLES`,
    ...verbatim(examples.map((example) => `$ tranche ${example}`)),
  ]
}
