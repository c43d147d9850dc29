// Statements in the SQL that both stores speak, and the interface that runs them on either.

import type { Instant } from '../core/time.ts'

/**
 * A statement with parameters as `:name`. `Row` is what a row of its answer looks like. In common SQL, a sum is cast
 * (`cast(x as bigint)`), a subquery has a name, and no column is selected that is not grouped by.
 */
export type Sql<Row> = {
  readonly text: string
  /** Only for the compiler. */
  readonly row?: Row
}
export type Params = Readonly<Record<string, unknown>>
type Question<Row> = { statement: Sql<Row>; params: Params }

export type Reader = {
  all<Row>(statement: Sql<Row>, params?: Params): Promise<Row[]>
  /** The first row, undefined when there is none. */
  get<Row>(statement: Sql<Row>, params?: Params): Promise<Row | undefined>
  /** The answers to several questions, of one consistent snapshot. */
  together<Rows extends unknown[]>(
    ...questions: { [K in keyof Rows]: Question<Rows[K]> }
  ): Promise<{ [K in keyof Rows]: Rows[K][] }>
}

/** To be called once for each statement, when its module is loaded: what a store prepares of it is kept under it. */
export const sql = <Row>(text: string): Sql<Row> => ({ text })

export const ask = <Row>(statement: Sql<Row>, params: Params = {}): Question<Row> => ({ statement, params })

/**
 * How many rows are read without a break: a few milliseconds on a file, where one reader holds up all others in its
 * process.
 */
export const PAGE_ROWS = 5_000

/** Between two pages other requests get their turn. */
export const breathe = () => new Promise((resolve) => setImmediate(resolve))

// Integers of a row to instants.

export const instant = (value: bigint): Instant => Number(value) as Instant
export const instantOrNull = (value: bigint | null): Instant | null =>
  value === null ? null : instant(value)
