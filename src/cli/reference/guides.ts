// The pages of `docs`: their names, their sections, and how one is found.

import { usage } from '../../core/problem.ts'
import { quoted } from '../../core/text.ts'
import { readPages } from '../../resources.ts'

export type Page = {
  /** Its name for a reader: "operations", "decisions/clock". */
  topic: string
  /** The path of its file in the source. */
  path: string
  title: string
  text: string
}

/** All pages that are written for reading, by topic. */
export function findGuides(): Page[] {
  const pages = filesWhere(isMarkdown).map(([path, text]) => {
    return { topic: topicOf(path), path, title: /^# (.*)$/m.exec(text)?.[1] ?? '', text }
  })
  return pages.sort((a, b) => (a.topic < b.topic ? -1 : 1))
}

/** The programs that the guides offer for copying: shown unchanged, and not in the list of topics. */
export const findExamples = (): Page[] =>
  filesWhere((path) => !isMarkdown(path)).map(([path, text]) => ({
    topic: topicOf(path),
    path,
    title: path,
    text,
  }))

/** The files of a sample folder: the programs, and the page that says how to start them. */
export const sampleFiles = (): { name: string; text: string }[] =>
  filesWhere((path) => path.startsWith(EXAMPLES)).map(([path, text]) => ({
    name: path.slice(EXAMPLES.length),
    text,
  }))

const EXAMPLES = 'docs/examples/'

const filesWhere = (wanted: (path: string) => boolean): [path: string, text: string][] =>
  Object.entries(readPages()).filter(([path]) => wanted(path))

const isMarkdown = (path: string): boolean => path.endsWith('.md')

/** Whether a page is in the list of topics: decisions have a list of their own. */
export const isListed = ({ topic }: Page): boolean => !topic.includes('/')

export const topicNames = (): string[] =>
  findGuides()
    .filter(isListed)
    .map(({ topic }) => topic)

/**
 * The page, or the section of one, called `name`: "operations", its beginning, or as a link in a page has it,
 * "operations.md#backups". Throws usage when there is none, or more than one.
 */
export function findTopic(pages: readonly Page[], name: string): Page {
  const [file = '', anchor] = name.split('#')
  const page = pageNamed(pages, inDocs(file.replace(/^(\.\.\/)+(?=.)/, '')))
  if (anchor === undefined) return page
  if (!isMarkdown(page.path)) throw usage(`${page.topic} has no sections.`)
  const sections = anchors(page.text)
  const section = sections.find((one) => one.anchor === anchor)
  if (section) return { ...page, title: section.title, text: section.text }
  const names = sections.map((one) => one.anchor).join(', ')
  throw usage(`${page.topic} has no section ${quoted(anchor)}; it has ${names}.`)
}

/** The page with this name, or the only one whose name begins so. */
function pageNamed(pages: readonly Page[], name: string): Page {
  const exact = pages.find(({ topic, path }) => [topic, `${topic}.md`, inDocs(path)].includes(name))
  if (exact) return exact
  const among = name.includes('/') ? pages : pages.filter(isListed)
  const begun = name === '' ? [] : among.filter(({ topic }) => topic.startsWith(name))
  const [only] = begun
  if (only && begun.length === 1) return only
  const names = (begun.length > 0 ? begun : pages.filter(isListed)).map(({ topic }) => topic).join(', ')
  const what = begun.length > 0 ? 'may be any of' : 'is not a topic; the topics are'
  throw usage(`${quoted(name)} ${what} ${names}.`)
}

/** The sections of a page, each down to the next heading of its rank, under the name that a link gives it. */
export function anchors(page: string): { anchor: string; title: string; text: string }[] {
  const lines = page.split('\n')
  let isCode = false
  const headings = lines.flatMap((line, at) => {
    if (/^ *```/.test(line)) isCode = !isCode
    const [, marks, source] = (isCode ? null : /^(#+) +(.*)$/.exec(line)) ?? []
    return marks && source ? [{ at, rank: marks.length, source }] : []
  })
  const occurrences = new Map<string, number>()
  return headings.map(({ at, rank, source }, i) => {
    const next = headings.slice(i + 1).find((other) => other.rank <= rank)
    const title = source.replace(LINK, '$1').replace(MARKS, '')
    const name = title
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
    const before = occurrences.get(name) ?? 0
    occurrences.set(name, before + 1)
    const text = lines.slice(at, next?.at).join('\n').trimEnd()
    return { anchor: before === 0 ? name : `${name}-${before}`, title, text: `${text}\n` }
  })
}

const LINK = /\[([^\]]*)\]\([^)]*\)/g
/** Code, bold and italic; an underscore inside a word belongs to it. */
const MARKS = /[`*]|(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu

/** A path as seen from the guides, which are in docs/. */
const inDocs = (path: string): string => path.replace(/^docs\/(?=.)/, '')

const topicOf = (path: string): string =>
  inDocs(path)
    .replace(/(?<=.)\/README\.md$/, '')
    .replace(/\.md$/, '')
    .toLowerCase()
