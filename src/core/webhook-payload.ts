// The one event of webhooks: a wake-up for a tenant, never an instruction.

import type { ExecutionId } from './execution-id.ts'
import type { Tenant } from './partner.ts'

export const EVENT_NAME = 'executions.available'

/** What a wake-up says: whose it is, how many executions the pass created for them, and the first of them. */
export type Announcement = {
  tenant: Pick<Tenant, 'partnerSlug' | 'environment'>
  count: number
  earliest: ExecutionId
}
export type WakeUp = Announcement & { tenant: Tenant }

/** The fields of a wake-up in the order they are sent in. */
export const PAYLOAD_FIELDS: readonly string[] = [
  'event',
  'partner_slug',
  'environment',
  'count',
  'earliest_execution_id',
]

/** The body of a wake-up. */
export const payloadOf = ({ tenant, count, earliest }: Announcement): string =>
  JSON.stringify({
    event: EVENT_NAME,
    partner_slug: tenant.partnerSlug,
    environment: tenant.environment,
    count,
    earliest_execution_id: earliest,
  })
