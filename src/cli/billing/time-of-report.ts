// Whose time a report goes by: for a single environment, that environment's, which in a sandbox is not the real one;
// for several, the real one.

import type { Instant } from '../../core/instant.ts'
import type { TenantFilter } from '../../store/partners.ts'
import type { Store } from '../../store/store.ts'

/** What time it is where the report is about, by the clock of the database. */
export async function timeFor(store: Store, { slug, environment }: TenantFilter): Promise<Instant> {
  const sandboxes = await store.listSandboxes()
  const own = sandboxes.find(
    ({ tenant }) => tenant.partnerSlug === slug && tenant.environment === environment,
  )
  return own?.now ?? (await store.readClock()).now
}
