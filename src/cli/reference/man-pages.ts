// The man pages: of the program and each command (section 1), from the command tree and its help; of each guide (7).

import type { Command } from 'commander'
import { VERSION } from '../../resources.ts'
import { everyCommand, GROUPS, type Help, helpOf } from '../help.ts'
import { isListed, linkOf, type Page } from './guides.ts'
import { type Block, blocksIn, blocksOf, type Inline, inline, markersOf, plainText } from './markdown.ts'

type ManPage = { name: string; section: 1 | 7; text: string }

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
  pageText([
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

// A guide as a man page of section 7.

function manGuide(page: Page, pages: readonly Page[]): string {
  const name = `tranche-${page.topic}`
  const as = inlineFor(page, pages)
  // The title is already in the NAME line.
  const [, ...blocks] = blocksOf(page.text)
  return pageText([
    ...titleLines(name, 7, VERSION),
    '.SH NAME',
    `${escaped(name)} \\- ${escaped(page.title)}`,
    '.SH DESCRIPTION',
    ...writeBlocks(blocks, as),
    '.SH SEE ALSO',
    `${bold('tranche')}(1), ${bold(escaped('tranche-docs'))}(1)`,
  ])
}

function inlineFor(page: Page, pages: readonly Page[]): Inline {
  return {
    text: escaped,
    code: (text) => bold(escaped(text)),
    bold,
    italic,
    link: (inner, target) => {
      const { kind, name } = linkOf(page, target, pages)
      if (kind === 'here') return inner
      if (kind === 'address') return `${inner} <${escaped(name)}>`
      if (kind === 'source') return `${inner} (${escaped(name)} in the source)`
      const [topic = '', section] = name.split('#')
      // Decisions have no man page of their own.
      const where = topic.includes('/') ? `tranche docs ${name}` : `tranche-${topic}(7)`
      return `${inner} [${escaped(where)}${section && !topic.includes('/') ? escaped(`, ${section}`) : ''}]`
    },
    lineBreak: '\n.br\n',
  }
}

function writeBlocks(blocks: readonly Block[], as: Inline): string[] {
  return blocks.flatMap((block, at) => writeBlock(block, as, at === 0))
}

function writeBlock(block: Block, as: Inline, isFirst: boolean): string[] {
  switch (block.type) {
    case 'heading': {
      const title = argument(plainText(block.tokens))
      return [`${block.depth <= 2 ? '.SH' : '.SS'} ${title}`]
    }
    case 'paragraph':
      return [...(isFirst ? [] : ['.PP']), inline(block.tokens, as)]
    case 'code':
      return verbatim(block.text.split('\n'))
    case 'list': {
      const markers = markersOf(block)
      return block.items.flatMap((item, at) => [
        `.IP ${block.ordered ? `${markers[at]} 4` : '\\(bu 2'}`,
        ...inset(writeBlocks(blocksIn(item), as)),
      ])
    }
    case 'table': {
      const titles = block.header.map(({ text }) => text)
      return block.rows.flatMap((cells) =>
        writeRow(
          titles,
          cells.map(({ tokens }) => inline(tokens, as)),
        ),
      )
    }
  }
}

/** What follows the first paragraph of an item stays under it. */
const inset = (lines: readonly string[]): string[] => {
  const next = lines.findIndex((line) => line.startsWith('.PP'))
  return next === -1 ? [...lines] : [...lines.slice(0, next), '.RS', ...lines.slice(next), '.RE']
}

/** A row by its first cell; the others by their titles, where there are several. */
function writeRow(head: readonly string[], cells: readonly string[]): string[] {
  const [term = '', ...rest] = cells
  const [title = '', ...more] = term.split('\n.br\n')
  const others = rest.flatMap((cell, i) => {
    const name = head[i + 1] ?? ''
    if (cell === '') return []
    return [
      ...(i === 0 ? [] : ['.br']),
      `${rest.length > 1 && name !== '' ? `${escaped(name)}: ` : ''}${cell}`,
    ]
  })
  return item(title, [...more.flatMap((line) => [line, '.br']), ...others])
}

// Text in the form that roff's man macros require.

/**
 * Text that is shown literally, wherever it is: it is not taken for a request or an escape, and dashes stay dashes.
 */
const escaped = (text: string): string =>
  text
    .replaceAll('\\', '\\(rs')
    .replaceAll('-', '\\-')
    .replaceAll("'", '\\(aq')
    .replaceAll('`', '\\(ga')
    .replaceAll('^', '\\(ha')
    .replaceAll('~', '\\(ti')
    .replace(
      /[^\n -~]/gu,
      (letter) => `\\[u${(letter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`,
    )
    .replace(/^\./gm, '\\&.')

const bold = (written: string): string => `\\fB${written}\\fP`
const italic = (written: string): string => `\\fI${written}\\fP`

/** An argument of a macro. */
const argument = (text: string): string => `"${escaped(text).replaceAll('"', '\\(dq')}"`

/** The lines before the first section: the page's name, its section of the manual, and whose it is. */
const titleLines = (name: string, section: number, version: string): string[] => [
  `.TH ${argument(name.toUpperCase())} ${section} "" ${argument(`tranche ${version}`)} "tranche"`,
  // Ragged, and no word is cut: much of it is to be typed.
  '.ad l',
  '.nh',
]

/** Lines to be typed or read as they are. */
const verbatim = (lines: readonly string[]): string[] => [
  '.PP',
  '.RS 4',
  '.EX',
  ...lines.map(escaped),
  '.EE',
  '.RE',
]

/** A term and its description. */
const item = (term: string, lines: readonly string[]): string[] => [
  '.TP',
  term === '' ? '\\&' : term,
  ...lines,
]

/** The page from its lines. The first paragraph under a heading needs no macro, and must have none. */
const pageText = (lines: readonly string[]): string =>
  `${lines.filter((line, at) => line !== '.PP' || !/^\.S[HS] /.test(lines[at - 1] ?? '')).join('\n')}\n`
