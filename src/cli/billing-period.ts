import { periodOf } from '../core/month.ts'
import type { FixedPeriod, Store, TenantFilter } from '../store/store.ts'

/**
 * What a report of a month covers. About one environment alone, it goes by that environment's time, which in a sandbox
 * is not the real one; about several, by the real one.
 */
export async function fixPeriodFor(store: Store, month: string, filter: TenantFilter): Promise<FixedPeriod> {
  const { slug, environment } = filter
  const tenant = slug !== null && environment !== null ? await store.findTenant(slug, environment) : null
  return store.fixPeriod(periodOf(month), tenant)
}
