// Tells whether another connection has written to the file.

import type { Database } from 'better-sqlite3'

/** Tells, each time it is called, whether another connection has committed anything since the last call. */
export function watchOthers(db: Database): () => boolean {
  const version = db.prepare<[], bigint>('pragma data_version').pluck()
  let seen: bigint | undefined
  return () => {
    const last = seen
    seen = version.get()
    return last !== undefined && seen !== last
  }
}
