// What a SQLite file is set to when it is opened: how safe a commit is, what is erased, how much is kept in memory, and
// when its log is folded in.

import type { Database } from './connection.ts'

/** Pages of write-ahead log between checkpoints: fewer, larger ones cost less under load. */
export const CHECKPOINT_PAGES = 4_000

/** How much of the file SQLite may keep in memory: plenty for passes over many plans. */
const CACHE_KIB = 32_768

export function configure(db: Database, cacheKib = CACHE_KIB): void {
  db.pragma('journal_mode = wal')
  db.pragma('synchronous = full')
  db.pragma('foreign_keys = on')
  db.pragma('trusted_schema = off')
  // What is erased or replaced leaves zeros behind, not its text (docs/decisions/file.md#erasing-a-user).
  db.pragma('secure_delete = on')
  db.pragma('temp_store = memory')
  db.pragma(`cache_size = -${cacheKib}`)
  db.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
}
