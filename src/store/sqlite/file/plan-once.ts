// Keeps SQLite from planning a statement again at each use, which it does when the plan might depend on the value of a
// parameter. A unary plus, which changes no value, hides the parameter from it
// (docs/decisions/file.md#a-statement-is-planned-once).

/** Matches what may hold a colon or a question mark that is not a parameter, and parameters. */
const PARTS = /'[^']*'|"[^"]*"|--.*|[:?]\w*/g

/** The same statement, planned once, whatever its parameters are bound to. */
export const plannedOnce = (sql: string): string =>
  sql.replace(PARTS, (part) => (part.startsWith(':') || part.startsWith('?') ? `+${part}` : part))
