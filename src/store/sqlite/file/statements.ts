// The statements of a connection: planned once, and many rows inserted by one.

import type { Database } from 'better-sqlite3'

// Keeps SQLite from planning a statement again at each use, which it does when the plan might depend on the value of a
// parameter. A unary plus, which changes no value, hides the parameter from it
// (docs/decisions/file.md#a-statement-is-planned-once).

/** Matches what may hold a colon or a question mark that is not a parameter, and parameters. */
const PARTS = /'[^']*'|"[^"]*"|--.*|[:?]\w*/g

/** The same statement, planned once, whatever its parameters are bound to. */
export const plannedOnce = (sql: string): string =>
  sql.replace(PARTS, (part) => (part.startsWith(':') || part.startsWith('?') ? `+${part}` : part))

// Inserts many rows into one table, several per statement: SQLite sets up what a table's checks need, such as the lists
// of their `in (...)`, once per statement rather than once per row. For executions, that is 40 % of an insert.

/** Enough that more would gain nothing, and few enough that the remainder is quickly done one by one. */
export const ROWS_AT_ONCE = 100

type Value = string | number | bigint | null

/** Inserts `rows` in their order. The table and its columns are the program's own words. */
export function insertRows<Column extends string>(
  db: Database,
  table: string,
  columns: readonly Column[],
): (rows: readonly Readonly<Record<Column, Value>>[]) => void {
  const place = `(${columns.map(() => '?').join(', ')})`
  const insert = (rows: number) =>
    db.prepare(`insert into ${table} (${columns.join(', ')}) values ${Array(rows).fill(place).join(', ')}`)
  const [many, one] = [insert(ROWS_AT_ONCE), insert(1)]
  return (rows) => {
    const whole = rows.length - (rows.length % ROWS_AT_ONCE)
    for (let from = 0; from < whole; from += ROWS_AT_ONCE) {
      many.run(rows.slice(from, from + ROWS_AT_ONCE).flatMap((row) => columns.map((column) => row[column])))
    }
    for (const row of rows.slice(whole)) one.run(columns.map((column) => row[column]))
  }
}
