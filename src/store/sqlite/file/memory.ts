// What reads found, kept in this process until it may have changed: looking again costs several times what asking
// SQLite whether anybody wrote does.

import type { Database } from './connection.ts'

export type Memory<V> = {
  /** What is known under a key, else what `find` finds. Null is not remembered. Not for use inside a transaction. */
  recall: (key: string, find: () => V | null) => V | null
  /** To be called in every write of this connection that changes what is remembered: SQLite tells of others' only. */
  forget: () => void
}

/** Remembers at most so many. */
export function createMemory<V>(db: Database, most: number): Memory<V> {
  // Changes whenever another connection, in this process or another one, has committed anything at all.
  const version = db.prepare<[], bigint>('pragma data_version').pluck()
  const known = new Map<string, V>()
  let seenVersion: bigint | undefined

  return {
    recall(key, find) {
      const now = version.get()
      if (now !== seenVersion || known.size >= most) known.clear()
      seenVersion = now
      const remembered = known.get(key)
      if (remembered !== undefined) return remembered
      // Read after the version: it may be newer than that, and then the next call forgets it.
      const found = find()
      if (found !== null) known.set(key, found)
      return found
    },
    forget: () => known.clear(),
  }
}
