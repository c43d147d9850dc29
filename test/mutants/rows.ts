// The planted bugs on file, as rows of tables, and how one is planted: by its text, wherever in the program that is.

import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ACCOUNTS } from './bugs/accounts.ts'
import { COMMITS } from './bugs/commits.ts'
import { CONFIRMATIONS } from './bugs/confirmations.ts'
import { COPIES } from './bugs/copies.ts'
import { DELIVERY } from './bugs/delivery.ts'
import { HEALTH } from './bugs/health.ts'
import { MONTHS } from './bugs/months.ts'
import { WINDOWS } from './bugs/windows.ts'
import type { FinderName, Store } from './finders.ts'

export const ROOT = join(import.meta.dirname, '../..')

/** Several lines are an array, the later ones indented as seen from the first. */
export type Lines = string | readonly string[]

/** Where twins say the same on both stores, `in` names the one that is meant. */
export type Edit = { find: Lines; replace: Lines; in?: Store | 'common' }

/**
 * `find` is in the program exactly once, whatever white space separates its words, so that code may move and be laid
 * out anew. `breaks` says what goes wrong and what that would cost, `by` who finds it, and `on` the only store where it
 * shows.
 */
export type Row = { name: string; by: readonly FinderName[]; breaks: string; on?: 'postgres' } & (
  | Edit
  | { edits: readonly Edit[] }
)

export const ROWS: readonly Row[] = [
  ...ACCOUNTS,
  ...COMMITS,
  ...CONFIRMATIONS,
  ...COPIES,
  ...DELIVERY,
  ...HEALTH,
  ...MONTHS,
  ...WINDOWS,
]

export const rowsFor = (finder: FinderName): Row[] => ROWS.filter(({ by }) => by.includes(finder))

/** Where a planted bug shows. */
export const shownOn = ({ on }: Pick<Row, 'on'>): Store => on ?? 'sqlite'

/** The program as text, by file. */
export type Sources = ReadonlyMap<string, string>

export const sourcesOf = (tree: string): Sources =>
  new Map(
    globSync(['src/**/*.ts', 'sql/**/*.sql'], { cwd: tree })
      .sort()
      .map((file) => [file.replaceAll('\\', '/'), readFileSync(join(tree, file), 'utf8')]),
  )

/** The files that a row changes, as they are with its bug. Throws when its text is not in the program exactly once. */
export function planted(row: Row, sources: Sources): Map<string, string> {
  const spots = editsOf(row).map((edit) => spotOf(edit, sources))
  const changed = new Map<string, string>()
  // From the end of a file to its start, so that the places that are still to come stay where they are.
  for (const { file, start, end, text } of spots.toSorted((a, b) => b.start - a.start)) {
    const before = changed.get(file) ?? sources.get(file) ?? ''
    changed.set(file, before.slice(0, start) + text + before.slice(end))
  }
  return changed
}

/** Plants a bug in a tree. The function that it returns takes the bug back. */
export function plant(row: Row, tree: string): () => void {
  const sources = sourcesOf(tree)
  const changed = planted(row, sources)
  for (const [file, text] of changed) writeFileSync(join(tree, file), text)
  return () => {
    for (const file of changed.keys()) writeFileSync(join(tree, file), sources.get(file) ?? '')
  }
}

export const editsOf = (row: Row): readonly Edit[] => ('edits' in row ? row.edits : [row])

type Spot = { file: string; start: number; end: number; text: string }

function spotOf(edit: Edit, sources: Sources): Spot {
  const found = spotsOf(edit, sources)
  const near = found.filter(({ file }) => storeOf(file) === edit.in)
  // Twins may become one text that both stores use.
  const meant = found.length === 1 || edit.in === undefined ? found : near
  const [spot] = meant
  if (spot !== undefined && meant.length === 1) return spot
  const where = meant.length > 0 ? `: ${meant.map(({ file }) => file).join(', ')}` : ''
  throw new Error(
    `this is in the program ${meant.length} times${where}\n  ${linesOf(edit.find).join('\n  ')}`,
  )
}

function spotsOf({ find, replace }: Edit, sources: Sources): Spot[] {
  const words =
    linesOf(find)
      .join('\n')
      .match(/\w+|[^\w\s]|\s+/g) ?? []
  const longest = words.reduce((one, other) => (other.length > one.length ? other : one), '')
  const pattern = patternOf(words)
  return [...sources].flatMap(([file, text]) =>
    // Most files lack even the longest word.
    text.includes(longest)
      ? [...text.matchAll(pattern)].map(({ index, 0: { length } }) => ({
          file,
          ...fitted(text, { start: index, end: index + length }, linesOf(replace)),
        }))
      : [],
  )
}

/** White space is free where something else separates two words, and of any kind where only it does. */
function patternOf(words: readonly string[]): RegExp {
  const isWord = (text = '') => /^\w/.test(text)
  const parts = words.map((word, at) => {
    const next = words[at + 1]
    if (word.trim() === '') return isWord(words[at - 1]) && isWord(next) ? '\\s+' : '\\s*'
    const text = isWord(word) ? word : `\\${word}`
    return next === undefined || next.trim() === '' ? text : `${text}\\s*`
  })
  const before = isWord(words[0]) ? '(?<!\\w)' : ''
  const after = isWord(words.at(-1)) ? '(?!\\w)' : ''
  return new RegExp(before + parts.join('') + after, 'g')
}

/** What takes the place of a text, indented as its line is. Nothing takes the place of whole lines: they go. */
function fitted(text: string, { start, end }: { start: number; end: number }, lines: readonly string[]) {
  const lineStart = text.lastIndexOf('\n', start - 1) + 1
  const lineEnd = text.indexOf('\n', end)
  const isWhole = text.slice(lineStart, start).trim() === '' && text.slice(end, lineEnd).trim() === ''
  if (lines.join('') === '' && isWhole) return { start: lineStart, end: lineEnd + 1, text: '' }
  const indent = /^ */.exec(text.slice(lineStart))?.[0] ?? ''
  return {
    start,
    end,
    text: lines.map((line, at) => (at > 0 && line !== '' ? indent + line : line)).join('\n'),
  }
}

const linesOf = (lines: Lines): readonly string[] => (typeof lines === 'string' ? [lines] : lines)

/** The store whose own file it is. */
function storeOf(file: string): Store | 'common' {
  if (/\bpostgres\b/.test(file)) return 'postgres'
  return /\bsqlite\b|^sql\//.test(file) ? 'sqlite' : 'common'
}
