// A statement as the server is told it: ":tenant" becomes "$1", and "::bigint" stays a cast.

import type { Dialect, Params, Query } from '../../statement.ts'
import { type ColumnKind, type ColumnName, columnOf, type TableName } from '../../tables.ts'

type Statement = {
  /** Under which each connection prepares it, on first use. */
  name: string
  text: string
  params: readonly string[]
}

const DIALECT: Dialect = {
  among: (column, parameter, type = 'bigint') => `${column} = any(:${parameter}::${type}[])`,
  field: (json, name) => `${json}::json ->> '${name}'`,
  firstWord: (text) => `split_part(${text}, ' ', 1)`,
  least: (...values) => `least(${values.join(', ')})`,
  databaseBytes: 'pg_database_size(current_database())',
}
const PARAMETER = /(?<!:):([a-z][a-z0-9_]*)/g

/** For the whole process: a statement has the same name on every connection. */
const statements: Statement[] = []
export function ready({ id, text }: Query<unknown>): Statement {
  statements[id] ??= worded(`q${id}`, typeof text === 'string' ? text : text(DIALECT))
  return statements[id]
}

function worded(name: string, source: string): Statement {
  const params: string[] = []
  const text = source.replaceAll(PARAMETER, (_, param: string) => {
    if (!params.includes(param)) params.push(param)
    return `$${params.indexOf(param) + 1}`
  })
  return { name, text, params }
}

/**
 * PostgreSQL's text cannot hold a NUL, but a lookup may contain one, in a path for example. It becomes another control
 * character, which no id has either, so nothing is found.
 */
const known = (value: unknown): unknown =>
  typeof value === 'string'
    ? value.replaceAll('\0', '\u0001')
    : Array.isArray(value)
      ? value.map(known)
      : value

/** The values of a statement in the order of its parameters. A missing one is the caller's mistake. */
export const valuesOf = ({ text, params: names }: Statement, params: Params): unknown[] =>
  names.map((name) => {
    if (!(name in params)) throw new Error(`no value for :${name} of ${text}`)
    return known(params[name])
  })

// Many rows as parameters of one statement: an array for each of their columns.

export type Columns<Name extends string = string> = Readonly<Record<Name, 'bigint' | 'text' | 'float8'>>

const ARRAYS = { integer: 'bigint', text: 'text', real: 'float8' } as const satisfies Record<
  ColumnKind,
  string
>

/** Columns of a table. */
export const arraysFor = <T extends TableName, Name extends ColumnName<T>>(
  of: T,
  names: readonly Name[],
): Columns<Name> =>
  Object.fromEntries(names.map((name) => [name, ARRAYS[columnOf(of, name).kind]])) as Columns<Name>

/** What reads in SQL as a table `as` with these columns. */
export function rowsIn(columns: Columns, as: string): string {
  const arrays = Object.entries(columns).map(([name, type]) => `:${name}::${type}[]`)
  return `unnest(${arrays.join(', ')}) as ${as} (${Object.keys(columns).join(', ')})`
}

/** Its parameters. A row in which a column is missing does not compile. */
export const arraysOf = <Name extends string>(
  columns: Columns<Name>,
  rows: readonly Readonly<Record<NoInfer<Name>, unknown>>[],
): Params =>
  Object.fromEntries(
    (Object.entries(columns) as [Name, Columns[string]][]).map(([name, type]) => {
      const values = rows.map((row) => row[name])
      return [name, type === 'text' ? values : numbers(values)]
    }),
  )

/** An array of numbers in PostgreSQL's own words: the client would look into each of them for quotes. */
const numbers = (values: readonly unknown[]): string =>
  `{${values.map((value) => value ?? 'null').join(',')}}`

/** Its columns, for an insert. */
export const namesOf = (columns: Columns): string => Object.keys(columns).join(', ')
