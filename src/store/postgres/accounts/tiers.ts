// SCAFFOLD Pricing tiers.

import type { TierStore } from '../../tiers.ts'
import type { Connection } from '../server/connection.ts'

export function createTierStore(_connection: Connection): TierStore {
  return {} as TierStore
}
