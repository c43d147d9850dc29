// Whether a call is admitted: not with a key that has ended, nor for a partner that is disabled.

import type { Instant } from './instant.ts'
import { isUsable, type KeyLife } from './key.ts'
import type { PartnerStatus } from './partner.ts'
import { Problem } from './problem.ts'

/** What decides whether a call is admitted. */
export type Admitted = { key: KeyLife; partnerStatus: PartnerStatus; now: Instant }

/**
 * Refuses a call whose key has ended, or opens nothing because its partner is disabled. Throws key_invalid and
 * partner_disabled.
 */
export function admit(seen: Admitted | null): asserts seen is Admitted {
  if (!seen || !isUsable(seen.key, seen.now)) throw new Problem('key_invalid', 'Invalid API key.')
  if (seen.partnerStatus !== 'active') throw new Problem('partner_disabled', 'Partner is not active.')
}
