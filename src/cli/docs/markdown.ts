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
export const headingOf = (page: string): string => /^# (.*)$/m.exec(page)?.[1] ?? ''

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
