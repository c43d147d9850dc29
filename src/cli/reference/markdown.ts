// Markdown as the pages are read for a terminal and for man: the blocks of a text, its marked parts, and the sections
// of a page. Loaded when a page is laid out or a section is asked for.

import { Lexer, lexer, type Token, type Tokens } from 'marked'
import { Problem } from '../../core/problem.ts'
import { quoted } from '../../core/text.ts'
import { isGuide, type Page, pageNamed } from './guides.ts'

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
