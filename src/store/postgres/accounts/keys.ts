// API keys, found by the hash of their secret: the secret itself is stored nowhere. Nothing about them is cached: when
// a key is revoked or its partner disabled on any host, the next call on every host is refused.

import type { Instant } from '../../../core/instant.ts'
import type { KeySeen } from '../../../core/key.ts'
import type { PartnerStatus } from '../../../core/partner.ts'
import { Problem } from '../../../core/problem.ts'
import { askTogether } from '../../ask-together.ts'
import { intact } from '../../digests.ts'
import type { KeyStore, NewKey } from '../../keys.ts'
import { changedKeyParams, type KeyRow, keyOf, keyParams } from '../../rows/key.ts'
import { tenantOf } from '../../rows/tenant.ts'
import {
  INSERT_KEY,
  IS_ROTATED,
  KEY_BY_ID,
  KEYS_OF_PARTNER,
  SELECT_SEEN_KEY,
  UPDATE_KEY,
} from '../../sql/accounts.ts'
import { callOf, ofTenant } from '../../transaction.ts'
import type { Connection } from '../server/connection.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { addAudit } from './audit.ts'

type SeenRow = KeyRow & { key_sha256: string; partner_name: string; partner_status: string }

const BY_SECRET = query<SeenRow>(`${SELECT_SEEN_KEY} where k.key_sha256 = any(:hashes::text[])`)
const BY_ID = query<KeyRow>(KEY_BY_ID)
const LOCK = query<KeyRow>(`${KEY_BY_ID} for no key update of k`)
const OF_PARTNER = query<KeyRow>(KEYS_OF_PARTNER)
const ROTATED = query(IS_ROTATED)
const INSERT = query(INSERT_KEY)
const UPDATE = query(UPDATE_KEY)
const MARK_USED = query('update api_keys set last_used_at = :now where key_id = :key_id')

const unknown = (keyId: string) => new Problem('key_not_found', `Key ${keyId} not found.`)

export function createKeyStore(connection: Connection): KeyStore {
  const { clock } = connection

  async function findAll(hashes: readonly string[]): Promise<(KeySeen | null)[]> {
    const [rows, now] = await connection.look(
      (tx) => Promise.all([tx.all(BY_SECRET, { hashes }), clock.present(tx)]),
      { caller: 'unknown' },
    )
    const found = new Map(rows.map((row) => [row.key_sha256, row]))
    return hashes.map((hash) => {
      const row = found.get(hash)
      if (!row) return null
      const { partner_name: partnerName, partner_status } = row
      return {
        key: keyOf(intact('api_keys', row)),
        partnerName,
        partnerStatus: partner_status as PartnerStatus,
        now,
      }
    })
  }

  return {
    findKey: askTogether(findAll),

    markKeyUsed: (tenant, keyId) =>
      connection.write(async (tx) => {
        await tx.run(MARK_USED, { key_id: keyId, now: await clock.now(tx) })
      }, callOf(tenant)),

    addKey: (key, entry) =>
      connection.write(async (tx) => {
        const [{ real }, now] = await Promise.all([tx.times, clock.now(tx)])
        const [added] = await Promise.all([insert(tx, key, now), addAudit(tx, entry, real)])
        return added
      }, ofTenant(key.tenant)),

    /**
     * Alone in the key's tenant: every write by that key has either committed by then, or sees that the key has ended.
     */
    async changeKey(keyId, decide, entry) {
      const found = await connection.look((tx) => tx.get(BY_ID, { key_id: keyId }))
      if (!found) throw unknown(keyId)
      return connection.write(
        async (tx) => {
          const [row, rotated, { real }, now] = await Promise.all([
            tx.get(LOCK, { key_id: keyId }),
            tx.get(ROTATED, { key_id: keyId }),
            tx.times,
            clock.now(tx),
          ])
          if (!row) throw unknown(keyId)
          const change = decide(keyOf(row), { now: real, clock: now, isRotated: rotated !== undefined })
          const [successor] = await Promise.all([
            change.successor && insert(tx, change.successor, now),
            tx.run(UPDATE, changedKeyParams(row, change.key)),
            addAudit(tx, entry, real),
          ])
          return { key: change.key, successor }
        },
        { ...ofTenant(tenantOf(found)), alone: 'tenants' },
      )
    },

    listKeys: async (slug) => (await connection.look((tx) => tx.all(OF_PARTNER, { slug }))).map(keyOf),
  }
}

async function insert(tx: Tx, key: NewKey, now: Instant) {
  const [, row] = await Promise.all([
    tx.run(INSERT, keyParams(key, now)),
    tx.get(BY_ID, { key_id: key.keyId }),
  ])
  if (!row) throw new Error(`key ${key.keyId} was not kept`)
  return keyOf(row)
}
