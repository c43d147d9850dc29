// How a call finds its key on a file, by the hash of its secret: the secret itself is stored nowhere. A server is asked
// anew for every call (../../postgres/accounts/keys.ts); a file tells cheaply whether anybody has written to it.

import type { KeySeen } from '../../../core/key.ts'
import { askTogether } from '../../ask-together.ts'
import type { KeyStore } from '../../keys.ts'
import { type SeenKeyRow, seenKeyOf } from '../../rows/key.ts'
import { SELECT_SEEN_KEY } from '../../sql/accounts.ts'
import type { Connection, Database } from '../file/connection.ts'
import { createMemory, type Memory } from '../file/remembered-reads.ts'

/** A cache of keys and their partners: every call looks one up. */
export type KeyMemory = Memory<Omit<KeySeen, 'now'>>

/** More keys than a minute's calls bring; each takes a few hundred bytes. */
const KEYS_REMEMBERED = 10_000

export const createKeyMemory = (db: Database): KeyMemory => createMemory(db, KEYS_REMEMBERED)

export function createKeyFinder({ db, present, look }: Connection, memory: KeyMemory): KeyStore['findKey'] {
  const bySecret = db.prepare<[string], SeenKeyRow>(`${SELECT_SEEN_KEY} where k.key_sha256 = ?`)
  const seen = (sha256: string) => {
    const row = bySecret.get(sha256)
    return row ? seenKeyOf(row) : null
  }
  return askTogether((hashes) =>
    look(() => {
      const known = memory.recall(hashes, seen)
      const now = present()
      return known.map((one) => one && { ...one, now })
    }),
  )
}
