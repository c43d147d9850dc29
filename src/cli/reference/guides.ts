// The pages that `docs` shows: their names, how one is found, and where its links lead.

import { dirname, join } from 'node:path/posix'
import { Problem } from '../../core/problem.ts'
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
    return { topic: topicOf(path), path, title: titleOf(text), text }
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
  findGuides()
    .filter(isListed)
    .map(({ topic }) => topic)

/** The page that a name, or the beginning of one, stands for. Throws usage when there is none, or more than one. */
export function pageNamed(pages: readonly Page[], name: string): Page {
  const exact = pages.find(({ topic, path }) => [topic, `${topic}.md`, path].includes(name))
  if (exact) return exact
  const among = name.includes('/') ? pages : pages.filter(isListed)
  const begun = name === '' ? [] : among.filter(({ topic }) => topic.startsWith(name))
  const [only] = begun
  if (only && begun.length === 1) return only
  const names = (begun.length > 0 ? begun : pages.filter(isListed)).map(({ topic }) => topic).join(', ')
  const what = begun.length > 0 ? 'may be any of' : 'is not a topic; the topics are'
  throw new Problem('usage', `${quoted(name)} ${what} ${names}.`)
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

/** The title of a page: its first heading, which has no marks. */
const titleOf = (text: string): string => /^# (.*)$/m.exec(text)?.[1] ?? ''
