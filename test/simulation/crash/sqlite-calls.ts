// The calls of this process to SQLite, so that it can be ended between two of them.

import SQLite from 'better-sqlite3'
import { openFile } from '../../../src/store/sqlite/file/connection.ts'

/**
 * Has `boundary` called before and after every call to the database: what is between two of them is never cut in half.
 */
export function watchCalls(boundary: (isCommit: boolean) => void): void {
  const db = openFile(':memory:')
  const statement = Object.getPrototypeOf(SQLite.prototype.prepare.call(db, 'select 1'))
  const watched: [object: Record<string, (...given: unknown[]) => unknown>, names: string[]][] = [
    [statement, ['run', 'get', 'all', 'iterate']],
    [SQLite.prototype as never, ['exec', 'pragma']],
  ]
  for (const [object, names] of watched) {
    for (const name of names) {
      const original = object[name] as (...given: unknown[]) => unknown
      object[name] = function (this: object, ...given: unknown[]) {
        const isCommit = isCommitting(this, given)
        boundary(isCommit)
        const result = original.apply(this, given)
        boundary(isCommit)
        return result
      }
    }
  }
  db.close()
}

/** Whether a call is a commit: of a prepared statement, or as text. */
const isCommitting = (statement: object, [text]: unknown[]): boolean =>
  ('source' in statement ? statement.source : text) === 'commit'
