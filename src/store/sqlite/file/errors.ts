// What SQLite's errors mean.

import SQLite from 'better-sqlite3'

/** What SQLite would have thrown, where it only says so in a row. */
export const busy = (): Error => new SQLite.SqliteError('database is locked', 'SQLITE_BUSY')

export const isBusy = (error: unknown): boolean =>
  error instanceof SQLite.SqliteError &&
  (error.code.startsWith('SQLITE_BUSY') || error.code === 'SQLITE_LOCKED')

/** Whether the file itself is damaged, rather than what is stored in it. */
export const isCorrupt = (error: unknown): boolean =>
  error instanceof SQLite.SqliteError && error.code.startsWith('SQLITE_CORRUPT')

/** Whether SQLite cannot make sense of the file at all, or of a part it needed. */
export const isUnreadable = (error: unknown): boolean =>
  isCorrupt(error) || (error instanceof SQLite.SqliteError && error.code === 'SQLITE_NOTADB')
