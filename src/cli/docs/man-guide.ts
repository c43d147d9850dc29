// A guide as a man page of section 7.

import { VERSION } from '../../version.ts'
import { type Block, blocksOf, type Inline, inline, plainText } from './markdown.ts'
import { linkOf, type Page } from './pages.ts'
import { argument, bold, escaped, italic, item, pageOf, titleLines, verbatim } from './roff.ts'

export function manGuide(page: Page, pages: readonly Page[]): string {
  const name = `tranche-${page.topic}`
  const as = inlineFor(page, pages)
  // The title is already in the NAME line.
  const [, ...blocks] = blocksOf(page.text)
  return pageOf([
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
  switch (block.kind) {
    case 'heading': {
      const title = argument(plainText(block.text))
      return [`${block.level <= 2 ? '.SH' : '.SS'} ${title}`]
    }
    case 'paragraph':
      return [...(isFirst ? [] : ['.PP']), inline(block.text, as)]
    case 'code':
      return verbatim(block.lines)
    case 'list':
      return block.items.flatMap(({ marker, blocks }) => [
        `.IP ${marker === '-' ? '\\(bu 2' : `${marker} 4`}`,
        ...inset(writeBlocks(blocks, as)),
      ])
    case 'table':
      return block.rows.flatMap((cells) => writeRow(block.head, cells, as))
  }
}

/** What follows the first paragraph of an item stays under it. */
const inset = (lines: readonly string[]): string[] => {
  const next = lines.findIndex((line) => line.startsWith('.PP'))
  return next === -1 ? [...lines] : [...lines.slice(0, next), '.RS', ...lines.slice(next), '.RE']
}

/** A row by its first cell; the others by their titles, where there are several. */
function writeRow(head: readonly string[], cells: readonly string[], as: Inline): string[] {
  const [term = '', ...rest] = cells.map((cell) => inline(cell, as))
  const [title = '', ...more] = term.split('\n.br\n')
  const said = rest.flatMap((cell, i) => {
    const name = head[i + 1] ?? ''
    if (cell === '') return []
    return [
      ...(i === 0 ? [] : ['.br']),
      `${rest.length > 1 && name !== '' ? `${escaped(name)}: ` : ''}${cell}`,
    ]
  })
  return item(title, [...more.flatMap((line) => [line, '.br']), ...said])
}
