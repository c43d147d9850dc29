// Whose time a report goes by: about one environment alone, by that environment's, which in a sandbox is not the real
// one; about several, by the real one.

import type { Instant } from '../../core/instant.ts'
import { periodOf } from '../../core/month.ts'
import type { FixedPeriod } from '../../store/months.ts'
import type { TenantFilter } from '../../store/partners.ts'
import type { Store } from '../../store/store.ts'

/** What a report of a month covers. */
export async function fixPeriodFor(store: Store, month: string, filter: TenantFilter): Promise<FixedPeriod> {
  const { slug, environment } = filter
  const tenant = slug !== null && environment !== null ? await store.findTenant(slug, environment) : null
  return store.fixPeriod(periodOf(month), tenant)
}

/** What time it is where the report is about. */
export async function timeFor(
  store: Store,
  { slug, environment }: TenantFilter,
  real: Instant,
): Promise<Instant> {
  const sandboxes = await store.listSandboxes()
  const own = sandboxes.find(
    ({ tenant }) => tenant.partnerSlug === slug && tenant.environment === environment,
  )
  return own?.now ?? real
}
