// What reads found, kept in this process until it may have changed: reading again costs several times as much as asking
// SQLite whether anybody wrote.

import type { Database } from './connection.ts'

export type Memory<V> = {
  /**
   * What is known for each key, or else what `find` finds. Null is not remembered. Checks once for all of them whether
   * anybody has written. Not for use inside a transaction.
   */
  recall: (keys: readonly string[], find: (key: string) => V | null) => (V | null)[]
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
    recall(keys, find) {
      const now = version.get()
      if (now !== seenVersion || known.size >= most) known.clear()
      seenVersion = now
      return keys.map((key) => {
        const remembered = known.get(key)
        if (remembered !== undefined) return remembered
        // Read after the version, so it may be newer than that; the next call then forgets it.
        const found = find(key)
        if (found !== null) known.set(key, found)
        return found
      })
    },
    forget: () => known.clear(),
  }
}
