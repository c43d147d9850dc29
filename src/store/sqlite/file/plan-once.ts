// Keeps SQLite from planning a statement anew at each use, as it does when the plan might depend on the value of a
// parameter. Behind a unary plus, which changes no value, it does not look (docs/decisions/0050-a-statement-is-planned-once.md).

/** What may hold a colon or a question mark that is no parameter, and parameters. */
const PARTS = /'[^']*'|"[^"]*"|--.*|[:?]\w*/g

/** The same statement, planned once, whatever its parameters are bound to. */
export const plannedOnce = (sql: string): string =>
  sql.replace(PARTS, (part) => (part.startsWith(':') || part.startsWith('?') ? `+${part}` : part))
