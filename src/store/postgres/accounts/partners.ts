// SCAFFOLD Partners and their tenants.

import type { PartnerStore } from '../../partners.ts'
import type { Connection } from '../server/connection.ts'

export function createPartnerStore(_connection: Connection): PartnerStore {
  return {} as PartnerStore
}
