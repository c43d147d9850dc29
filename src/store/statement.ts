// A statement of SQL with named parameters, as both stores write it, and what is read with it.

import type { Instant } from '../core/time.ts'

/** Columns with their types, in the order in which a statement names them. */
export type Kinds = Readonly<Record<string, 'integer' | 'text' | 'real'>>

/** Spellings that differ between the two databases. */
export type Dialect = {
  /** Whether a column is one of the values of a parameter: `among('plan_id', 'plan_ids')`. */
  among: (column: string, parameter: string, type?: 'bigint' | 'text') => string
  /**
   * A parameter with many rows, which reads in SQL as a table `as`. Its value is an array of objects with these
   * columns. A file runs the statement for parts of them in turn, so rows must not depend on each other.
   */
  rows: (parameter: string, columns: Kinds, as: string) => string
  /** Locks the rows that a select returns of the table `of`. A file needs no lock. */
  forUpdate: (of: string) => string
  /** A field of a JSON text. */
  field: (json: string, name: string) => string
  /** The part of a text before its first space. */
  firstWord: (text: string) => string
  /** The least of several values, none of them null. */
  least: (...values: string[]) => string
  /** The size of the database. */
  databaseBytes: string
}
type Text = string | ((dialect: Dialect) => string)
export type Params = Readonly<Record<string, unknown>>

/**
 * A statement with parameters as `:name`. In SQL for both stores, a sum is cast (`cast(x as bigint)`), a subquery has a
 * name, and no column is selected that is not grouped by.
 */
export type Query<Row> = {
  /** The key under which a store keeps the prepared statement. */
  readonly id: number
  readonly text: Text
  /** Reads a row of the result; by default, rows stay as they are, with integers as bigint. */
  readonly read: (row: never) => Row
}

let defined = 0

/** Must be called once for each statement, when its module is loaded. */
export function query<Row = never>(text: Text): Query<Row>
export function query<Row, Value>(text: Text, read: (row: Row) => Value): Query<Value>
export function query<Value>(text: Text, read: (row: never) => Value = (row) => row): Query<Value> {
  defined += 1
  return { id: defined, text, read }
}

/** The rows of a result, as the statement reads them. */
export const readBy = <Row>({ read }: Query<Row>, rows: readonly unknown[]): Row[] =>
  rows.map((row) => read(row as never))

/** The value of a parameter with many rows. A missing one is the caller's mistake. */
export function rowsOf(params: Params, parameter: string): readonly Params[] {
  const rows = params[parameter]
  if (!Array.isArray(rows)) throw new Error(`no rows for :${parameter}`)
  return rows
}

/** Rows read without a break: a few milliseconds on a file, where a reader blocks all others in its process. */
export const PAGE_ROWS = 5_000

/** A pause in which other requests get their turn. */
export const breathe = () => new Promise((resolve) => setImmediate(resolve))

// Integers of a row as instants.

export const instant = (value: bigint): Instant => Number(value) as Instant
export const instantOrNull = (value: bigint | null): Instant | null =>
  value === null ? null : instant(value)

// Readers of rows with one column.

export const atOf = ({ at }: { at: bigint }): Instant => instant(at)
export const atOrNull = ({ at }: { at: bigint | null }): Instant | null => instantOrNull(at)
export const countOf = ({ n }: { n: bigint }): number => Number(n)
