// Whose time a report goes by: for a single environment, that environment's, which in a sandbox is not the real one;
// for several, the real one.

import { spellSpan } from '../../core/duration-words.ts'
import { type Instant, monthOf } from '../../core/instant.ts'
import { periodOf } from '../../core/month.ts'
import type { TenantFilter } from '../../store/partners.ts'
import type { Store } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import { warn } from '../terminal/print.ts'

/** What time it is where the report is about, by the clock of the database. */
export async function timeFor(store: Store, { slug, environment }: TenantFilter): Promise<Instant> {
  const sandboxes = await store.listSandboxes()
  const own = sandboxes.find(
    ({ tenant }) => tenant.partnerSlug === slug && tenant.environment === environment,
  )
  return own?.now ?? (await store.readClock()).now
}

/** A command that named more of them would say nothing new. */
const SANDBOXES_NAMED = 5

/**
 * Warns of sandboxes that are ahead in a report of all test environments: it goes by the real time, so of a month that
 * is not over in it, what a sandbox has done after that is not there.
 */
export async function warnOfSandboxes(
  cli: Cli,
  store: Store,
  { filter, months }: { filter: TenantFilter; months: readonly string[] },
): Promise<void> {
  if (filter.slug !== null || filter.environment === 'live') return
  const { now: real } = await store.readClock()
  if (months.every((month) => periodOf(month).end <= real)) return
  const ahead = (await store.listSandboxes()).filter(({ now }) => now > real)
  for (const { tenant, offsetMs, now } of ahead.slice(0, SANDBOXES_NAMED)) {
    const { partnerSlug: slug, environment } = tenant
    warn(
      cli,
      `${slug} ${environment} is ${spellSpan(offsetMs)} ahead, in ${monthOf(now)}: a report of all test environments ` +
        `goes by the real time and has nothing of it from then on. --partner ${slug} reports by its own time.`,
    )
  }
  const more = ahead.length - SANDBOXES_NAMED
  if (more > 0) warn(cli, `${more} more test environments are ahead: tranche status names them.`)
}
