// The months of a billing command (one, a range, or the year so far), and the time that decides which they are.

import { type Command, Option } from 'commander'
import { monthsFrom, periodOf } from '../../core/month.ts'
import { usage } from '../../core/problem.ts'
import { type Instant, monthOf, spellSpan } from '../../core/time.ts'
import type { Store, TenantFilter } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import { month, year } from '../options.ts'
import { warn } from '../terminal.ts'

export type Months = { months: readonly string[]; filter: TenantFilter }

const RANGE_MONTHS_MAX = 120

export type MonthOptions = { month?: string; from?: string; to?: string; year?: string; yearToDate?: boolean }

/** `otherwise` is the month used when none is given. */
export const monthOption = (otherwise?: string): Option =>
  new Option('--month <month>', 'the month (YYYY-MM)').argParser(month).default(undefined, otherwise)

export function addMonthOptions(command: Command, otherwise?: string): Command {
  return command
    .addOption(monthOption(otherwise).conflicts(['from', 'to', 'year', 'yearToDate']))
    .addOption(
      new Option('--from <month>', 'the first of several months (YYYY-MM)')
        .argParser(month)
        .conflicts('yearToDate'),
    )
    .option('--to <month>', 'the last of several months (YYYY-MM), by default the present one', month)
    .addOption(
      new Option('--year <year>', 'the months of a year (YYYY) that have begun')
        .argParser(year)
        .conflicts(['from', 'to', 'yearToDate']),
    )
    .option('--year-to-date', 'all months from January on, in the year of --to')
}

export const namesMonths = ({ month, from, to, year, yearToDate }: MonthOptions): boolean =>
  [month, from, to, year, yearToDate].some((given) => given !== undefined)

/** The months in their order. Throws usage for a range that has none, or too many. */
export async function monthsOf(
  { month, from, to, year, yearToDate }: MonthOptions,
  present: () => Promise<string>,
): Promise<string[]> {
  if (month !== undefined) return [month]
  if (year !== undefined) {
    const begun = monthsFrom(`${year}-01`, await present(), 12)
    if (begun.length === 0) throw usage(`${year} has not begun.`)
    return begun
  }
  if (to !== undefined && from === undefined && !yearToDate)
    throw usage('--to needs --from or --year-to-date.')
  const last = to ?? (await present())
  const first = yearToDate ? `${last.slice(0, 4)}-01` : (from ?? last)
  const months = monthsFrom(first, last, RANGE_MONTHS_MAX + 1)
  if (months.length === 0) {
    const end = to === undefined ? `the present month, ${last}; give --to` : `--to ${last}`
    throw usage(`--from ${first} is after ${end}.`)
  }
  if (months.length > RANGE_MONTHS_MAX)
    throw usage(
      `--from ${first} to ${last} is more than ${RANGE_MONTHS_MAX} months; ask for fewer at a time.`,
    )
  return months
}

/** The months as part of a sentence: `in 2026-10`, or `from 2026-08 to 2026-10`. */
export function spellMonths(months: readonly string[]): string {
  const [first, last] = [months[0], months.at(-1)]
  return first === last ? `in ${first}` : `from ${first} to ${last}`
}

/** The present time for a report: for a single environment its own, which a sandbox may have advanced. */
export async function timeFor(store: Store, { slug, environment }: TenantFilter): Promise<Instant> {
  const sandboxes = await store.listSandboxes()
  const sandbox = sandboxes.find(
    ({ tenant }) => tenant.partnerSlug === slug && tenant.environment === environment,
  )
  return sandbox?.now ?? (await store.readClock()).now
}

const SANDBOXES_NAMED = 5

/** Warns of sandboxes that are ahead: a report of all test environments ends at the real time and omits the rest. */
export async function warnOfSandboxes(cli: Cli, store: Store, { filter, months }: Months): Promise<void> {
  if (filter.slug !== null || filter.environment === 'live') return
  const { now: real } = await store.readClock()
  if (months.every((month) => periodOf(month).end <= real)) return
  const ahead = (await store.listSandboxes()).filter(({ now }) => now > real)
  for (const { tenant, offsetMs, now } of ahead.slice(0, SANDBOXES_NAMED)) {
    const { partnerSlug: slug, environment } = tenant
    warn(
      cli,
      `${slug} ${environment} is ${spellSpan(offsetMs)} ahead, in ${monthOf(now)}: a report of all test environments ` +
        `ends at the real time. Add --partner ${slug} for a report in its own time.`,
    )
  }
  const more = ahead.length - SANDBOXES_NAMED
  if (more > 0) warn(cli, `${more} more test environments are ahead: tranche status names them.`)
}

/** The month in which the database would record a change now. On a server, its clock is not that of this machine. */
export const presentMonth = async (store: Pick<Store, 'readClock'>): Promise<string> =>
  monthOf((await store.readClock()).now)
