// Everything that the operator's page shows, read from the store: what status, check, plan show and billing show
// compute.

import { type Billed, bill } from '../../billing/statement.ts'
import { type Finding, findingsOf } from '../../core/findings.ts'
import { DAY_MS, type Instant, monthOf, plus } from '../../core/instant.ts'
import type { Price } from '../../core/money.ts'
import { periodOf } from '../../core/month.ts'
import type { Partner, Tenant } from '../../core/partner.ts'
import type { FixedPeriod } from '../../core/report-period.ts'
import type { PartnerSeen, Vitals } from '../../core/vitals.ts'
import type { FiredTranche, OpenWindow } from '../../store/ops-page.ts'
import type { Store } from '../../store/store.ts'
import { createStockTaker } from '../metrics/plans-and-unspent-windows.ts'
import { createDayCounter, type Day } from './bought-today.ts'
import { keptFor, shared } from './shared-work.ts'

export const ROWS_SHOWN = 50
const MONTHS_SHOWN = 24
const WINDOWS_SHOWN = 15
const TRANCHES_DRAWN = 200
export const PRICES_SHOWN_MS = 2 * DAY_MS
const PRICE_STEPS = 400
/** However often the page is asked for, its data is read at most this often. */
const OVERVIEW_MS = 2_000

export type Line = { at: Instant; price: Price }[]

export type Overview = {
  now: Instant
  vitals: Vitals
  findings: Finding[]
  day: Day
  from: Instant
  points: Line
  tranches: FiredTranche[]
  windows: OpenWindow[]
  /** Those that need attention come first. */
  partners: Partner[]
  seen: ReadonlyMap<string, PartnerSeen>
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
  const takeStock = createStockTaker()
  const oneAtATime = shared(readOverview)
  const overview = keptFor(OVERVIEW_MS, clock, oneAtATime)

  async function readOverview(store: Store): Promise<Overview> {
    const { now } = await store.readClock()
    const from = plus(now, -PRICES_SHOWN_MS)
    const vitals = await store.readVitals(now, await takeStock(store, now))
    const findings = findingsOf(vitals, now)
    const seen = new Map(vitals.partners.map((partner) => [partner.tenant.partnerSlug, partner]))
    const troubled = new Set(findings.map(({ tenant }) => tenant?.partnerSlug))
    const calm = ({ partnerSlug }: Partner): number => Number(!troubled.has(partnerSlug))
    return {
      now,
      vitals,
      findings,
      seen,
      day: await addUpDay(store, now),
      from,
      points: await store.samplePrices(from, PRICES_SHOWN_MS / PRICE_STEPS),
      tranches: await store.listTranches(null, TRANCHES_DRAWN),
      windows: await store.listOpenWindows(WINDOWS_SHOWN),
      partners: (await store.listPartners()).toSorted((a, b) => calm(a) - calm(b)),
    }
  }

  return { overview, readPlan, readMonth }

  /** Null for a plan that does not exist. */
  async function readPlan(store: Store, name: string, tenant: Tenant): Promise<PlanView | null> {
    const plan = (await store.findPlans(name)).find((one) => one.tenant.tenantId === tenant.tenantId)
    if (!plan) return null
    const { now } = await store.readClock()
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

/** The months that may hold something, the newest first. */
export function monthsSince(first: Instant | null, now: Instant): string[] {
  const months: string[] = []
  const earliest = monthOf(first ?? now)
  for (let month = monthOf(now); month >= earliest && months.length < MONTHS_SHOWN; ) {
    months.push(month)
    month = monthOf(plus(periodOf(month).start, -1))
  }
  return months
}
