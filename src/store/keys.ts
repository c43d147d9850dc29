// API keys, known by the hash of their secret.

import type { ApiKey, KeySeen, KeyTerms, KeyTime } from '../core/key.ts'
import type { Tenant } from '../core/partner.ts'
import type { AuditEntry } from './audit.ts'

/** A key to be added: its terms, and what is kept of its secret. */
export type NewKey = KeyTerms & { keyId: string; sha256: string; prefix: string; lastFour: string }

export interface KeyStore {
  findKey(sha256: string): Promise<KeySeen | null>
  markKeyUsed(tenant: Tenant, keyId: string): Promise<void>
  addKey(key: NewKey, audit: AuditEntry): Promise<ApiKey>
  /** Changes a key, and adds another in the same transaction when a rotation asks for it. Throws key_not_found. */
  changeKey(
    keyId: string,
    decide: (seen: ApiKey, time: KeyTime) => { key: ApiKey; successor: NewKey | null },
    audit: AuditEntry,
  ): Promise<{ key: ApiKey; successor: ApiKey | null }>
  listKeys(slug: string): Promise<ApiKey[]>
}
