// How a call finds its key on a server, by the hash of its secret: the secret itself is stored nowhere. Nothing is
// remembered, as a file does it (../../sqlite/accounts/keys.ts): when a key is revoked or its partner disabled on any
// host, the next call on every host is refused.

import { askTogether } from '../../ask-together.ts'
import type { KeyStore } from '../../keys.ts'
import { type SeenKeyRow, seenKeyOf } from '../../rows/key.ts'
import { SELECT_SEEN_KEY } from '../../sql/accounts.ts'
import type { Connection } from '../server/connection.ts'
import { query } from '../server/statement.ts'

const BY_SECRET = query<SeenKeyRow>(`${SELECT_SEEN_KEY} where k.key_sha256 = any(:hashes::text[])`)

export const createKeyFinder = ({ look, clock }: Connection): KeyStore['findKey'] =>
  askTogether(async (hashes) => {
    const [rows, now] = await look((tx) => Promise.all([tx.all(BY_SECRET, { hashes }), clock.present(tx)]), {
      caller: 'unknown',
    })
    const found = new Map(rows.map((row) => [row.key_sha256, row]))
    return hashes.map((hash) => {
      const row = found.get(hash)
      return row ? { ...seenKeyOf(row), now } : null
    })
  })
