// Many rows as parameters of one statement: an array for each of their columns.

import type { Params } from './statement.ts'

export type Columns = Readonly<Record<string, 'bigint' | 'text' | 'float8'>>

/** What reads in SQL as a table `as` with these columns. */
export function rowsIn(columns: Columns, as: string): string {
  const arrays = Object.entries(columns).map(([name, type]) => `:${name}::${type}[]`)
  return `unnest(${arrays.join(', ')}) as ${as} (${Object.keys(columns).join(', ')})`
}

/** Its parameters. */
export const arraysOf = (columns: Columns, rows: readonly Params[]): Params =>
  Object.fromEntries(
    Object.entries(columns).map(([name, type]) => {
      const values = rows.map((row) => row[name])
      return [name, type === 'text' ? values : numbers(values)]
    }),
  )

/** An array of numbers in PostgreSQL's own words: the client would look into each of them for quotes. */
const numbers = (values: readonly unknown[]): string =>
  `{${values.map((value) => value ?? 'null').join(',')}}`

/** Its columns, for an insert. */
export const namesOf = (columns: Columns): string => Object.keys(columns).join(', ')
