// API keys, found by the hash of their secret: the secret itself is stored nowhere.

import type { Instant } from '../../../core/instant.ts'
import type { ApiKey, KeySeen } from '../../../core/key.ts'
import type { PartnerStatus } from '../../../core/partner.ts'
import { Problem } from '../../../core/problem.ts'
import { askTogether } from '../../ask-together.ts'
import { intact } from '../../digests.ts'
import type { KeyStore, NewKey } from '../../keys.ts'
import { changedKeyParams, type KeyRow, keyOf, keyParams } from '../../rows/key.ts'
import {
  INSERT_KEY,
  IS_ROTATED,
  KEY_BY_ID,
  KEYS_OF_PARTNER,
  SELECT_SEEN_KEY,
  UPDATE_KEY,
} from '../../sql/accounts.ts'
import type { Connection, Database } from '../file/connection.ts'
import { createMemory, type Memory } from '../file/remembered-reads.ts'
import type { AuditLog } from './audit.ts'

type Known = Omit<KeySeen, 'now'>
/** A cache of keys and their partners: every call looks one up. */
export type KeyMemory = Memory<Known>

/** More keys than a minute's calls bring; each takes a few hundred bytes. */
const KEYS_REMEMBERED = 10_000

export const createKeyMemory = (db: Database): KeyMemory => createMemory(db, KEYS_REMEMBERED)

export function createKeyStore(
  { db, clock, present, look, write, read }: Connection,
  { audit, memory }: { audit: AuditLog; memory: KeyMemory },
): KeyStore {
  const sql = {
    bySecret: db.prepare<[string], KeyRow & { partner_name: string; partner_status: string }>(
      `${SELECT_SEEN_KEY} where k.key_sha256 = ?`,
    ),
    byId: db.prepare<object, KeyRow>(KEY_BY_ID),
    ofPartner: db.prepare<object, KeyRow>(KEYS_OF_PARTNER),
    isRotated: db.prepare<object, object>(IS_ROTATED),
    insert: db.prepare(INSERT_KEY),
    update: db.prepare(UPDATE_KEY),
    markUsed: db.prepare('update api_keys set last_used_at = :now where key_id = :key_id'),
  }

  function seen(sha256: string): Known | null {
    const row = sql.bySecret.get(sha256)
    if (!row) return null
    const { partner_name: partnerName, partner_status } = row
    return {
      key: keyOf(intact('api_keys', row)),
      partnerName,
      partnerStatus: partner_status as PartnerStatus,
    }
  }

  function found(keyId: string): KeyRow {
    const row = sql.byId.get({ key_id: keyId })
    if (!row) throw new Problem('key_not_found', `Key ${keyId} not found.`)
    return row
  }

  function insert(key: NewKey, now: Instant): ApiKey {
    sql.insert.run(keyParams(key, now))
    return keyOf(found(key.keyId))
  }

  return {
    findKey: askTogether((hashes) =>
      look(() => {
        const known = memory.recall(hashes, seen)
        const now = present()
        return known.map((one) => one && { ...one, now })
      }),
    ),

    markKeyUsed: (_, keyId) =>
      write(() => {
        memory.forget()
        sql.markUsed.run({ key_id: keyId, now: clock() })
      }),

    addKey: (key, entry) =>
      write((now) => {
        const added = insert(key, clock())
        audit.add(entry, now)
        return added
      }),

    changeKey: (keyId, decide, entry) =>
      write((now) => {
        const isRotated = sql.isRotated.get({ key_id: keyId }) !== undefined
        const time = { now, clock: clock(), isRotated }
        const row = found(keyId)
        const change = decide(keyOf(row), time)
        memory.forget()
        sql.update.run(changedKeyParams(row, change.key))
        const successor = change.successor && insert(change.successor, time.clock)
        audit.add(entry, now)
        return { key: change.key, successor }
      }),

    listKeys: (slug) => read(() => sql.ofPartner.all({ slug }).map(keyOf)),
  }
}
