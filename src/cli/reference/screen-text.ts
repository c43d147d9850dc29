// A page as text for a terminal: wrapped to its width, with headings, code and links that stand out.

import { stripVTControlCharacters } from 'node:util'
import { type Paint, type Style, widthOf, wrapped } from '../terminal.ts'
import { type Link, linkOf, type Page } from './guides.ts'
import { type Block, blocksIn, blocksOf, type Inline, inline, markersOf, plainText } from './markdown.ts'

/** Longer lines are hard to read. */
const WIDTH_MAX = 100
const GAP = '  '

export function screenText(page: Page, pages: readonly Page[], paint: Paint, columns: number): string {
  const width = Math.min(columns, WIDTH_MAX)
  const as = inlineFor(paint, (target) => linkOf(page, target, pages))
  const body = layBlocks(blocksOf(page.text), as, paint, width)
  const hint = paint('dim', 'Brackets name the page to read: tranche docs NAME')
  return body.some((line) => TOPIC_MARK.test(stripVTControlCharacters(line)))
    ? [...body, '', hint].join('\n')
    : body.join('\n')
}

const TOPIC_MARK = / \[[a-z]\S*\]/

function inlineFor(paint: Paint, leadsTo: (target: string) => Link): Inline {
  // Word by word, because a pager forgets the style of a text at the end of a line.
  const words = (style: Style) => (text: string) => text.replace(/\S+/g, (word) => paint(style, word))
  const dim = words('dim')
  return {
    text: (text) => text,
    // Without colours, the marks of the source have to be enough.
    code: paint('cyan', '') === '' ? (text) => `\`${text}\`` : words('cyan'),
    bold: words('bold'),
    italic: words('italic'),
    link: (inner, target) => {
      const { kind, name } = leadsTo(target)
      if (kind === 'here') return inner
      const shown = words('underline')(inner)
      if (kind === 'topic') {
        const isSaid = stripVTControlCharacters(inner).toLowerCase() === name
        return isSaid ? shown : `${shown} ${dim(`[${name}]`)}`
      }
      return kind === 'address'
        ? `${shown} ${dim(`<${name}>`)}`
        : `${shown} ${dim(`(${name} in the source)`)}`
    },
    lineBreak: '\n',
  }
}

function layBlocks(blocks: readonly Block[], as: Inline, paint: Paint, width: number): string[] {
  return blocks.flatMap((block, at) => [...(at === 0 ? [] : ['']), ...layBlock(block, as, paint, width)])
}

function layBlock(block: Block, as: Inline, paint: Paint, width: number): string[] {
  switch (block.type) {
    case 'heading':
      return wrapped(plainText(block.tokens), width).map((line) =>
        paint('bold', block.depth === 1 ? line.toUpperCase() : line),
      )
    case 'paragraph':
      return wrapped(inline(block.tokens, as), width)
    case 'code':
      return block.text.split('\n').map((line) => `    ${line === '' ? '' : paint('cyan', line)}`.trimEnd())
    case 'list': {
      const markers = markersOf(block)
      return block.items.flatMap((item, i) => {
        const lead = `${block.ordered ? markers[i] : '•'} `
        const inner = layBlocks(blocksIn(item), as, paint, width - lead.length)
        return inner.map((line, at) => `${at === 0 ? lead : ' '.repeat(lead.length)}${line}`.trimEnd())
      })
    }
    case 'table':
      return layTable(block, as, paint, width)
  }
}

function layTable(
  { header, rows }: Block & { type: 'table' },
  as: Inline,
  paint: Paint,
  width: number,
): string[] {
  const head = header.map(({ tokens }) => plainText(tokens))
  const written = rows.map((cells) => cells.map(({ tokens }) => inline(tokens, as)))
  const all = [head.map((title) => paint('bold', title)), ...written]
  const widths = columnWidths(all, width)
  if (widths === null) return layRecords(head, written, paint, width)
  const laid = all.map((cells) => layRow(cells, widths))
  // Rows of several lines need a gap to be told apart.
  const isTall = laid.some((lines) => lines.length > 1)
  const rule = paint('dim', widths.map((one) => '─'.repeat(one)).join(GAP))
  return laid.flatMap((lines, at) => [
    ...(isTall && at > 1 ? [''] : []),
    ...lines,
    ...(at === 0 ? [rule] : []),
  ])
}

/** Each as wide as it needs to be, or the widest narrowed until all fit; null when their longest words do not. */
function columnWidths(rows: readonly string[][], width: number): number[] | null {
  const columns = (rows[0] ?? []).map((_, i) => rows.map((row) => row[i] ?? ''))
  const needed = columns.map((cells) =>
    Math.max(1, ...cells.flatMap((cell) => cell.split('\n')).map(widthOf)),
  )
  const least = columns.map((cells) =>
    Math.max(1, ...cells.flatMap((cell) => cell.split(/\s+/)).map(widthOf)),
  )
  const room = width - GAP.length * (columns.length - 1)
  const widths = [...needed]
  const sum = () => widths.reduce((total, one) => total + one, 0)
  while (sum() > room) {
    const slack = widths.map((one, i) => (one > (least[i] ?? 0) ? one : 0))
    const widest = Math.max(...slack)
    if (widest === 0) return null
    widths[slack.indexOf(widest)] = widest - 1
  }
  return widths
}

function layRow(cells: readonly string[], widths: readonly number[]): string[] {
  const columns = cells.map((cell, i) => wrapped(cell, widths[i] ?? 1))
  const height = Math.max(...columns.map(({ length }) => length))
  return Array.from({ length: height }, (_, line) =>
    columns
      .map((lines, i) => padded(lines[line] ?? '', widths[i] ?? 1))
      .join(GAP)
      .trimEnd(),
  )
}

/** A table that is too wide, row by row: its first cell, and under it the others by their titles. */
function layRecords(
  head: readonly string[],
  rows: readonly string[][],
  paint: Paint,
  width: number,
): string[] {
  return rows.flatMap((cells, at) => [
    ...(at === 0 ? [] : ['']),
    ...cells.flatMap((cell, i) => {
      const title = head[i] ?? ''
      const lead = title === '' ? '' : `${paint('dim', title)}: `
      return cell === ''
        ? []
        : wrapped(lead + cell, width - 4).map(
            (line, n) => (i + n === 0 ? '' : n === 0 ? GAP : GAP + GAP) + line,
          )
    }),
  ])
}

const padded = (text: string, width: number): string => text + ' '.repeat(Math.max(0, width - widthOf(text)))
