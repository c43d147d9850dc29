// The recorded bugs, and how one is planted: by its text, wherever in the program that is.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { MONEY } from './bugs/money.ts'
import { ONCE } from './bugs/once.ts'
import { OWNERSHIP } from './bugs/ownership.ts'

/** Finders of a bug: the contract of the store, the simulator, or the tests of copies. */
export const FINDERS = ['contract', 'simulate', 'copy'] as const
export type FinderName = (typeof FINDERS)[number]

/**
 * `find` is in the program exactly once, whatever white space is between its words, so that code may move and be
 * reformatted. `breaks` describes the failure and its cost.
 */
type Bug = { breaks: string; find: string; replace: string }
export type Bugs = { [finder in FinderName]?: Record<string, Bug> }
export type Row = Bug & { name: string; by: FinderName }

export const ROWS: readonly Row[] = [MONEY, ONCE, OWNERSHIP].flatMap((bugs) =>
  FINDERS.flatMap((by) => Object.entries(bugs[by] ?? {}).map(([name, bug]) => ({ name, by, ...bug }))),
)

/** The program as text, by file; of the two schemas, the one for a file. */
export type Sources = ReadonlyMap<string, string>

export const sourcesOf = (tree: string): Sources =>
  new Map(
    globSync(['src/**/*.ts', 'sql/*.sql'], { cwd: tree }).map((file) => [
      file,
      readFileSync(join(tree, file), 'utf8'),
    ]),
  )

/** The file of a bug, with the bug planted. Throws when its text is not in the program exactly once. */
export function planted({ name, find, replace }: Row, sources: Sources): { file: string; text: string } {
  const words = find.split(/\s+/).map((word) => word.replace(/\W/g, '\\$&'))
  const pattern = new RegExp(`(?<!\\w)${words.join('\\s+')}`, 'g')
  const spots = [...sources].flatMap(([file, text]) =>
    [...text.matchAll(pattern)].map(({ index, 0: { length } }) => ({
      file,
      text: text.slice(0, index) + replace + text.slice(index + length),
    })),
  )
  const [spot] = spots
  if (spot && spots.length === 1) return spot
  throw new Error(
    `${name} is in the program ${spots.length} times: ${spots.map(({ file }) => file).join(', ')}`,
  )
}
