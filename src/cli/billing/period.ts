// Whose time a report goes by: about one environment alone, by that environment's, which in a sandbox is not the real
// one; about several, by the real one.

import type { Instant } from '../../core/instant.ts'
import { periodOf } from '../../core/month.ts'
import type { FixedPeriod } from '../../store/months.ts'
import type { TenantFilter } from '../../store/partners.ts'
import type { Store } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import { warn } from '../terminal/print.ts'

/** What a report of a month covers. */
export async function fixPeriodFor(
  cli: Cli,
  store: Store,
  { month, filter }: { month: string; filter: TenantFilter },
): Promise<FixedPeriod> {
  const { slug, environment } = filter
  const tenant = slug !== null && environment !== null ? await store.findTenant(slug, environment) : null
  const period = await store.fixPeriod(periodOf(month), tenant)
  const now = await timeFor(store, filter, cli.machine.clock())
  if (!period.final && now >= periodOf(month).end) warn(cli, notFinal(month))
  return period
}

const notFinal = (month: string): string =>
  `${month} is over by this clock alone, and so its figures are not final: no tick, trade or change by an operator has been recorded ` +
  'since its end. Run tranche tick, then ask again.'

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
