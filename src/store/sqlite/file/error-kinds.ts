// Which kind of error SQLite has thrown: the file is locked, damaged, or not a database.

import SQLite from 'better-sqlite3'

/** The error that SQLite would have thrown, where it only reports it in a row. */
export const busy = (): Error => new SQLite.SqliteError('database is locked', 'SQLITE_BUSY')

export const isBusy = (error: unknown): boolean =>
  error instanceof SQLite.SqliteError &&
  (error.code.startsWith('SQLITE_BUSY') || error.code === 'SQLITE_LOCKED')

/** Whether the file itself is damaged, rather than what is stored in it. */
export const isCorrupt = (error: unknown): boolean =>
  error instanceof SQLite.SqliteError && error.code.startsWith('SQLITE_CORRUPT')

/** Whether the file is not an SQLite database, or has lost its beginning. */
export const isNoDatabase = (error: unknown): boolean =>
  error instanceof SQLite.SqliteError && error.code === 'SQLITE_NOTADB'

/** Whether SQLite cannot make sense of the file at all, or of a part it needed. */
export const isUnreadable = (error: unknown): boolean => isCorrupt(error) || isNoDatabase(error)

/** SQLite puts a heading line before its first finding. */
export const inOneLine = (fault: string): string =>
  fault.replace(/^\*{3} in database main \*{3}\n/, '').replaceAll('\n', '; ')
