// Markdown as the pages are read for a terminal and for man: the blocks of a text, its marked parts, the sections of a
// page, and the page on a terminal. Loaded when a page is laid out or a section is asked for.

import { stripVTControlCharacters } from 'node:util'
import { Lexer, lexer, type Token, type Tokens } from 'marked'
import { Problem } from '../../core/problem.ts'
import { quoted } from '../../core/text.ts'
import { type Paint, type Style, widthOf, wrapped } from '../terminal.ts'
import { isGuide, type Link, linkOf, type Page, pageNamed } from './guides.ts'

export type Block = Tokens.Heading | Tokens.Paragraph | Tokens.List | Tokens.Code | Tokens.Table

/** The blocks of a text, in order. Comments are left out. */
export const blocksOf = (text: string): Block[] => readable(lexer(text))

/** The blocks of an item of a list, in order. */
export const blocksIn = ({ tokens }: Tokens.ListItem): Block[] => readable(tokens)

const readable = (tokens: readonly Token[]): Block[] =>
  tokens.flatMap((token): Block[] => {
    const { type, raw } = token
    if (KINDS.has(type)) return [token as Block]
    if (type === 'text') return [{ ...(token as Tokens.Text), type: 'paragraph', tokens: token.tokens ?? [] }]
    if (raw.trim() === '' || /^\s*<!--/.test(raw)) return []
    // No page has any other kind of block. If one ever does, its source text is shown.
    return [{ type: 'paragraph', raw, text: raw, tokens: Lexer.lexInline(raw.trim()) }]
  })

const KINDS: ReadonlySet<string> = new Set<Block['type']>(['heading', 'paragraph', 'list', 'code', 'table'])

/** The mark before each item of a list: a dash, or its number. */
export const markersOf = ({ ordered, start, items }: Tokens.List): string[] =>
  items.map((_, at) => (ordered ? `${Number(start) + at}.` : '-'))

/** How a renderer writes each kind of marked text; what is inside bold, italic and a link is written already. */
export type Inline = {
  text: (text: string) => string
  code: (text: string) => string
  bold: (inner: string) => string
  italic: (inner: string) => string
  link: (inner: string, target: string) => string
  lineBreak: string
}

/** The marked parts of a text, written by the renderer. */
export const inline = (tokens: readonly Token[], as: Inline): string =>
  tokens.map((token) => written(token as InlineToken, as)).join('')

type InlineToken =
  | Tokens.Text
  | Tokens.Codespan
  | Tokens.Strong
  | Tokens.Em
  | Tokens.Link
  | Tokens.Br
  | Tokens.Tag
  | Tokens.Escape
  | Tokens.Image

function written(token: InlineToken, as: Inline): string {
  switch (token.type) {
    case 'codespan':
      return as.code(token.text)
    case 'strong':
      return as.bold(inline(token.tokens, as))
    case 'em':
      return as.italic(inline(token.tokens, as))
    case 'image':
    case 'link':
      // An address that is written out is no link: a terminal shows it as it is.
      return token.raw === token.text ? as.text(token.text) : as.link(inline(token.tokens, as), token.href)
    case 'br':
      return as.lineBreak
    case 'html':
      return token.raw === '<br>' ? as.lineBreak : as.text(token.raw)
    default:
      return as.text(token.text.replaceAll('\n', ' '))
  }
}

const same = (text: string): string => text

/** A text without its marks. */
export const plainText = (text: string | readonly Token[]): string =>
  inline(typeof text === 'string' ? Lexer.lexInline(text) : text, {
    text: same,
    code: same,
    bold: same,
    italic: same,
    link: same,
    lineBreak: ' ',
  })

/** The sections of a page, each down to the next heading of its rank, under the name that a link gives it. */
export function anchors(page: string): { anchor: string; title: string; text: string }[] {
  const tokens = lexer(page)
  const headings = tokens.flatMap((token, at) =>
    token.type === 'heading' ? [{ at, heading: token as Tokens.Heading }] : [],
  )
  const occurrences = new Map<string, number>()
  return headings.map(({ at, heading }, i) => {
    const next = headings.slice(i + 1).find((other) => other.heading.depth <= heading.depth)
    const name = plainText(heading.tokens)
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
    const before = occurrences.get(name) ?? 0
    occurrences.set(name, before + 1)
    const source = tokens.slice(at, next?.at).map(({ raw }) => raw)
    return {
      anchor: before === 0 ? name : `${name}-${before}`,
      title: heading.text,
      text: `${source.join('').trimEnd()}\n`,
    }
  })
}

/**
 * The page, or the section of one, that `asked` names: "operations", its beginning, or as a link in a page has it,
 * "operations.md#backups". Throws usage when there is none, or more than one.
 */
export function findTopic(pages: readonly Page[], asked: string): Page {
  const [name = '', anchor] = asked.split('#')
  const page = pageNamed(pages, name.replace(/^docs\/(?=.)/, ''))
  if (anchor === undefined) return page
  if (!isGuide(page)) throw new Problem('usage', `${page.topic} has no sections.`)
  const part = anchors(page.text).find((one) => one.anchor === anchor)
  if (!part) {
    const known = anchors(page.text).map((one) => one.anchor)
    throw new Problem('usage', `${page.topic} has no section ${quoted(anchor)}; it has ${known.join(', ')}.`)
  }
  return { ...page, title: plainText(part.title), text: part.text }
}

// A page as text for a terminal: wrapped to its width, with headings, code and links that stand out.

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
