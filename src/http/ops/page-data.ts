// The data of the operator's page, read from the store, as `status`, `check`, `plan show` and `billing show` compute
// it.

import { type Billed, bill } from '../../billing/statement.ts'
import type { PartnerVitals, Vitals } from '../../core/findings.ts'
import { type Finding, findingsOf } from '../../core/findings.ts'
import type { Btc, Price, Usd } from '../../core/money.ts'
import { type FixedPeriod, periodOf } from '../../core/month.ts'
import type { Partner, Tenant } from '../../core/partner.ts'
import { DAY_MS, type Instant, monthOf, plus } from '../../core/time.ts'
import type { FiredTranche, OpenWindow, OpsPageStore, TradePlace, TradeSum } from '../../store/monitoring.ts'
import type { Store } from '../../store/store.ts'
import { createStockTaker, keptFor, shared } from './readiness.ts'

export const ROWS_SHOWN = 50
const MONTHS_SHOWN = 24
const WINDOWS_SHOWN = 15
const TRANCHES_DRAWN = 200
export const PRICES_SHOWN_MS = 2 * DAY_MS
const PRICE_STEPS = 400
/** The data of the page is read at most this often, however often the page is asked for. */
const OVERVIEW_MS = 2_000

type Line = { at: Instant; price: Price }[]

export type Overview = {
  now: Instant
  vitals: Vitals
  findings: Finding[]
  day: Day
  from: Instant
  points: Line
  tranches: FiredTranche[]
  windows: OpenWindow[]
  /** Partners that need attention come first. */
  partners: Partner[]
  vitalsOf: ReadonlyMap<string, PartnerVitals>
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
    const vitalsOf = new Map(vitals.partners.map((partner) => [partner.tenant.partnerSlug, partner]))
    const troubled = new Set(findings.map(({ tenant }) => tenant?.partnerSlug))
    const calm = ({ partnerSlug }: Partner): number => Number(!troubled.has(partnerSlug))
    return {
      now,
      vitals,
      findings,
      vitalsOf,
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

  /** A month as `billing show` has it, a page of partners at a time. */
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

/** The months since the first partner, the newest first. */
export function monthsSince(first: Instant | null, now: Instant): string[] {
  const months: string[] = []
  const earliest = monthOf(first ?? now)
  for (let month = monthOf(now); month >= earliest && months.length < MONTHS_SHOWN; ) {
    months.push(month)
    month = monthOf(plus(periodOf(month).start, -1))
  }
  return months
}

// What live partners bought today, added up as it comes in: each reading takes only the trades since the last one.

/** By UTC. `total` has no partner's name. */
type Day = { since: Instant; total: TradeSum; partners: ReadonlyMap<string, TradeSum> }

const TRADES_PER_READ = 5_000
const nothing = (partnerSlug: string): TradeSum => ({
  partnerSlug,
  filled: 0,
  failed: 0,
  usd: 0n as Usd,
  btc: 0n as Btc,
})

function createDayCounter(): (store: OpsPageStore, now: Instant) => Promise<Day> {
  let day = { since: 0 as Instant, total: nothing(''), partners: new Map<string, TradeSum>() }
  let place: TradePlace = { recordedAt: 0 as Instant, executionId: '' }

  return async (store, now) => {
    const since = (now - (now % DAY_MS)) as Instant
    if (since !== day.since) {
      day = { since, total: nothing(''), partners: new Map() }
      place = { recordedAt: since, executionId: '' }
    }
    for (;;) {
      const { sums, last } = await store.sumTradesAfter(place, now, TRADES_PER_READ)
      for (const sum of sums) {
        const known = day.partners.get(sum.partnerSlug) ?? nothing(sum.partnerSlug)
        day.partners.set(sum.partnerSlug, known)
        for (const one of [known, day.total]) {
          one.filled += sum.filled
          one.failed += sum.failed
          one.usd = (one.usd + sum.usd) as Usd
          one.btc = (one.btc + sum.btc) as Btc
        }
      }
      if (last === null) return day
      place = last
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}
