// The pages that `docs` shows: what each is called, how one is found, and where its links lead.

import { dirname, join } from 'node:path/posix'
import { Problem } from '../../core/problem.ts'
import { quoted } from '../../core/text.ts'
import { readPages } from '../../resources.ts'

export type Page = {
  /** What a reader calls it: "operations", "decisions/clock". */
  topic: string
  /** The path of its file in the source. */
  path: string
  title: string
  text: string
}

/** All pages, by topic. */
export function findPages(): Page[] {
  const pages = filesWhere(isMarkdown).map(([path, text]) => {
    return { topic: topicOf(path), path, title: plainText(headingOf(text)), text }
  })
  return pages.sort((a, b) => (a.topic < b.topic ? -1 : 1))
}

/** The programs that the guides tell one to copy: shown as they are, and not in the list of topics. */
export const findExamples = (): Page[] =>
  filesWhere((path) => !isMarkdown(path)).map(([path, text]) => ({
    topic: topicOf(path),
    path,
    title: path,
    text,
  }))

/** What belongs together in a folder of one's own: the programs, and the page that says how to start them. */
export const sampleFiles = (): { name: string; text: string }[] =>
  filesWhere((path) => path.startsWith(EXAMPLES)).map(([path, text]) => ({
    name: path.slice(EXAMPLES.length),
    text,
  }))

const EXAMPLES = 'docs/examples/'

const filesWhere = (wanted: (path: string) => boolean): [path: string, text: string][] =>
  Object.entries(readPages()).filter(([path]) => wanted(path))

const isMarkdown = (path: string): boolean => path.endsWith('.md')

/** Whether a page is laid out for a terminal, and not shown as it is. */
export const isGuide = ({ path }: Page): boolean => isMarkdown(path)

/** What the list of topics has: all but the pages of decisions, which have a list of their own. */
export const isListed = ({ topic }: Page): boolean => !topic.includes('/')

export const topicNames = (): string[] =>
  findPages()
    .filter(isListed)
    .map(({ topic }) => topic)

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

function pageNamed(pages: readonly Page[], name: string): Page {
  const exact = pages.find(({ topic, path }) => [topic, `${topic}.md`, path].includes(name))
  if (exact) return exact
  const among = name.includes('/') ? pages : pages.filter(isListed)
  const begun = name === '' ? [] : among.filter(({ topic }) => topic.startsWith(name))
  const [only] = begun
  if (only && begun.length === 1) return only
  const names = (begun.length > 0 ? begun : pages.filter(isListed)).map(({ topic }) => topic).join(', ')
  const problem = begun.length > 0 ? 'may be any of' : 'is not a topic; the topics are'
  throw new Problem('usage', `${quoted(name)} ${problem} ${names}.`)
}

/** Where a link leads: to a section of the same page, to an address, to a topic, or to a file of the source. */
export type Link = { kind: 'here' | 'address' | 'topic' | 'source'; name: string }

export function linkOf(page: Page, target: string, pages: readonly Page[]): Link {
  if (target.startsWith('#')) return { kind: 'here', name: target }
  if (/^[a-z]+:/.test(target)) return { kind: 'address', name: target }
  const [file = '', anchor] = target.split('#')
  const path = join(dirname(page.path), file)
  const linked = pages.find((one) => one.path === path || dirname(one.path) === path.replace(/\/$/, ''))
  if (!linked) return { kind: 'source', name: path }
  return { kind: 'topic', name: anchor === undefined ? linked.topic : `${linked.topic}#${anchor}` }
}

const topicOf = (path: string): string =>
  path
    .replace(/^docs\//, '')
    .replace(/(?<=.)\/README\.md$/, '')
    .replace(/\.md$/, '')
    .toLowerCase()

// Markdown as the guides use it: a page as blocks, a line of text as its marked parts, and the sections of a page.

export type Block =
  | { kind: 'heading'; level: number; text: string }
  | { kind: 'paragraph'; text: string }
  | { kind: 'list'; items: { marker: string; blocks: Block[] }[] }
  | { kind: 'code'; lines: string[] }
  | { kind: 'table'; head: string[]; rows: string[][] }

const FENCE = /^```/
const HEADING = /^(#{1,6}) (.*)$/
const ITEM = /^(-|\d+\.) +/
const COMMENT = /^<!--.*-->$/

/** The blocks of a text, in order. */
export function blocksOf(text: string): Block[] {
  const lines = text.split('\n')
  const blocks: Block[] = []
  for (let at = 0; at < lines.length; ) {
    const [block, next] = blockAt(lines, at)
    if (block) blocks.push(block)
    at = next
  }
  return blocks
}

/** The block that begins at a line, and the line after it. */
function blockAt(lines: readonly string[], at: number): [Block | null, number] {
  const line = lines[at] ?? ''
  if (line.trim() === '' || COMMENT.test(line)) return [null, at + 1]
  if (FENCE.test(line)) {
    const end = endOf(lines, at + 1, (other) => FENCE.test(other))
    return [{ kind: 'code', lines: lines.slice(at + 1, end) }, end + 1]
  }
  const [, marks, title = ''] = HEADING.exec(line) ?? []
  if (marks !== undefined) return [{ kind: 'heading', level: marks.length, text: title }, at + 1]
  if (line.startsWith('|')) {
    const end = endOf(lines, at, (other) => !other.startsWith('|'))
    const [head = [], , ...rows] = lines.slice(at, end).map(cellsOf)
    return [{ kind: 'table', head, rows }, end]
  }
  if (ITEM.test(line)) return listAt(lines, at)
  const end = endOf(lines, at + 1, isInterruption)
  return [{ kind: 'paragraph', text: joined(lines.slice(at, end)) }, end]
}

/** An item goes on as long as lines are indented under its text. */
function listAt(lines: readonly string[], at: number): [Block, number] {
  const items: { marker: string; blocks: Block[] }[] = []
  while (at < lines.length) {
    const [mark, marker = ''] = ITEM.exec(lines[at] ?? '') ?? []
    if (mark === undefined) break
    const indent = ' '.repeat(mark.length)
    let end = endOf(lines, at + 1, (other) => other.trim() !== '' && !other.startsWith(indent))
    while (lines[end - 1]?.trim() === '') end -= 1
    const own = lines.slice(at, end).map((other) => other.slice(mark.length))
    items.push({ marker, blocks: blocksOf(own.join('\n')) })
    at = endOf(lines, end, (other) => other.trim() !== '')
  }
  return [{ kind: 'list', items }, at]
}

const isInterruption = (line: string): boolean =>
  line.trim() === '' || FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || line.startsWith('|')

function endOf(lines: readonly string[], from: number, isEnd: (line: string) => boolean): number {
  const length = lines.slice(from).findIndex(isEnd)
  return length === -1 ? lines.length : from + length
}

const joined = (lines: readonly string[]): string => lines.map((line) => line.trim()).join(' ')

/** A bare bar ends a cell even in a code span; the guides write it as \|. */
const cellsOf = (row: string): string[] =>
  row
    .replace(/^\||\|\s*$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))

/** How a renderer writes each kind of marked text; what is inside bold, italic and a link is written already. */
export type Inline = {
  text: (text: string) => string
  code: (text: string) => string
  bold: (inner: string) => string
  italic: (inner: string) => string
  link: (inner: string, target: string) => string
  lineBreak: string
}

const MARKED =
  /`([^`]+)`|!?\[((?:`[^`]*`|[^\]`])*)\]\(([^)]*)\)|\*\*(.+?)\*\*|(?<!\w)\*([^\s*](?:[^*]*[^\s*])?)\*(?!\w)|<br>/g

/** A text, written by the renderer. */
export function inline(text: string, as: Inline): string {
  let out = ''
  let last = 0
  for (const { 0: all, 1: code, 2: label, 3: target, 4: bold, 5: italic, index } of text.matchAll(MARKED)) {
    out += as.text(text.slice(last, index))
    last = index + all.length
    if (code !== undefined) out += as.code(code)
    else if (label !== undefined) out += as.link(inline(label, as), target ?? '')
    else if (bold !== undefined) out += as.bold(inline(bold, as))
    else if (italic !== undefined) out += as.italic(inline(italic, as))
    else out += as.lineBreak
  }
  return out + as.text(text.slice(last))
}

const same = (text: string): string => text

/** A text without its marks. */
export const plainText = (text: string): string =>
  inline(text, { text: same, code: same, bold: same, italic: same, link: same, lineBreak: ' ' })

/** The title of a page: its first heading. */
const headingOf = (page: string): string => /^# (.*)$/m.exec(page)?.[1] ?? ''

/** The sections of a page, each down to the next heading of its rank, under the name that a link gives it. */
export function anchors(page: string): { anchor: string; title: string; text: string }[] {
  const lines = page.split('\n')
  let inCode = false
  const headings = lines.flatMap((line, at) => {
    if (FENCE.test(line.trimStart())) inCode = !inCode
    const [, marks, title = ''] = (!inCode && HEADING.exec(line)) || []
    return marks === undefined ? [] : [{ at, level: marks.length, title }]
  })
  const seen = new Map<string, number>()
  return headings.map(({ at, level, title }, i) => {
    const next = headings.slice(i + 1).find((other) => other.level <= level)
    const name = plainText(title)
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
    const before = seen.get(name) ?? 0
    seen.set(name, before + 1)
    const text = `${lines.slice(at, next?.at).join('\n').trimEnd()}\n`
    return { anchor: before === 0 ? name : `${name}-${before}`, title, text }
  })
}
