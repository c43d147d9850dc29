// All that the page of the operator shows, read from the store: what status, check, plan show and billing show compute.

import { type Billed, bill } from '../../billing/statement.ts'
import { DAY_MS, formatInstant, type Instant, plus } from '../../core/instant.ts'
import type { Price } from '../../core/money.ts'
import { periodOf } from '../../core/month.ts'
import type { Environment, Partner, Tenant } from '../../core/partner.ts'
import { latenessInWords, schedulerLateness } from '../../core/scheduler-lateness.ts'
import type { FixedPeriod } from '../../store/months.ts'
import type { FiredTranche, OpenWindow } from '../../store/ops-page.ts'
import type { ListedPlan } from '../../store/plans.ts'
import type { Store } from '../../store/store.ts'
import { keptFor, shared } from '../readiness.ts'
import { createDayCounter, type Day } from './day.ts'

export const ROWS_SHOWN = 50
export const MONTHS_SHOWN = 24
const WINDOWS_SHOWN = 15
const TRANCHES_DRAWN = 200
const PRICES_SHOWN_MS = 2 * DAY_MS
const PRICE_STEPS = 400
/** However often the page is asked for, it is read so often at most. */
const OVERVIEW_MS = 2_000

export type ShownFinding = {
  urgent: boolean
  kind: string
  subject: string
  message: string
  command: string
}
export type Line = { at: Instant; price: Price }[]
export type PartnerLine = Partner & { polledAt: Instant | null; trouble: string | null }

export type Overview = {
  now: Instant
  lastPassAt: Instant | null
  late: string | null
  findings: ShownFinding[]
  day: Day
  from: Instant
  points: Line
  tranches: FiredTranche[]
  windows: OpenWindow[]
  partners: Partner[]
}
export type PlanView = {
  now: Instant
  plan: Awaited<ReturnType<Store['findPlans']>>[number]
  from: Instant
  to: Instant
  points: Line
  tranches: FiredTranche[]
}
export type MonthView = { period: FixedPeriod; billed: Billed[]; page: number; pages: number }

export function createReader(clock: () => Instant) {
  const addUpDay = createDayCounter()
  const oneAtATime = shared(readOverview)
  const overview = keptFor(OVERVIEW_MS, clock, oneAtATime)

  async function readOverview(store: Store): Promise<Overview> {
    const now = clock()
    const from = plus(now, -PRICES_SHOWN_MS)
    const scheduler = await store.readScheduler()
    const { isLate, usualGapMs } = schedulerLateness(scheduler, now)
    return {
      now,
      lastPassAt: scheduler.lastFinishedAt,
      late: isLate ? latenessInWords(scheduler, now, usualGapMs) : null,
      findings: await readFindings(store),
      day: await addUpDay(store, now),
      from,
      points: await store.samplePrices(from, PRICES_SHOWN_MS / PRICE_STEPS),
      tranches: await store.listTranches(null, TRANCHES_DRAWN),
      windows: await store.listOpenWindows(WINDOWS_SHOWN),
      partners: await store.listPartners(),
    }
  }

  return { overview, readPlan, readMonth }

  /** Null for a plan that is not there. */
  async function readPlan(store: Store, name: string, tenant: Tenant): Promise<PlanView | null> {
    const plan = (await store.findPlans(name)).find((one) => one.tenant.tenantId === tenant.tenantId)
    if (!plan) return null
    const now = clock()
    const { start, end } = plan.window ?? { start: plus(now, -DAY_MS), end: now }
    const to = Math.min(end, Math.max(now, start)) as Instant
    const points = await store.samplePrices(start, Math.max(1, Math.ceil((to - start) / PRICE_STEPS)))
    const tranches = await store.listTranches(plan.planId, TRANCHES_DRAWN)
    return { now, plan, from: start, to, points: points.filter(({ at }) => at <= to), tranches }
  }

  /** What `billing show` says of a month, a page of partners at a time. */
  async function readMonth(store: Store, month: string, page: number): Promise<MonthView> {
    const own = periodOf(month)
    const period = await store.fixPeriod(own)
    const tenants = await store.listTenants({ slug: null, environment: 'live' }, own.end)
    const pages = Math.max(1, Math.ceil(tenants.length / ROWS_SHOWN))
    const shown = tenants.slice((page - 1) * ROWS_SHOWN, page * ROWS_SHOWN)
    const billed: Billed[] = []
    for (const tenant of shown) billed.push(await bill(store, tenant, period))
    return { period, billed, page, pages }
  }
}

async function readFindings(store: Store): Promise<ShownFinding[]> {
  const findings = await store.findWarnings()
  return findings.map((finding) => ({ ...finding, urgent: false, command: 'tranche check' }))
}

/** When each partner last asked for something, and what went wrong today. */
export async function partnerLines(
  store: Store,
  partners: readonly Partner[],
  day: Day,
): Promise<PartnerLine[]> {
  const lines: PartnerLine[] = []
  for (const partner of partners) {
    const keys = await store.listKeys(partner.partnerSlug)
    const used = keys.flatMap(({ tenant, lastUsedAt }) =>
      tenant.environment === 'live' && lastUsedAt !== null ? [lastUsedAt] : [],
    )
    const polledAt = used.length === 0 ? null : (Math.max(...used) as Instant)
    const failed = day.partners.get(partner.partnerSlug)?.failed ?? 0
    lines.push({ ...partner, polledAt, trouble: failed === 0 ? null : `${failed} failed today` })
  }
  return lines
}

/** A partner's plans in one environment, page by page; the cursor is the last plan's. */
export const readPlans = (
  store: Store,
  slug: string,
  environment: Environment,
  after: number,
): Promise<ListedPlan[]> => store.listPlans({ slug, environment }, { after, limit: ROWS_SHOWN })

/** The months that there may be something in, the newest first. */
export function monthsSince(first: Instant | null, now: Instant): string[] {
  const months: string[] = []
  const earliest = formatInstant(first ?? now).slice(0, 7)
  for (let month = formatInstant(now).slice(0, 7); month >= earliest && months.length < MONTHS_SHOWN; ) {
    months.push(month)
    month = formatInstant(plus(periodOf(month).start, -1)).slice(0, 7)
  }
  return months
}
