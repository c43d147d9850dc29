// The views of the operator's page and their data: the overview, a partner, a plan, a month, and the sign-in form.

import { type Billed, bill } from '../../billing/statement.ts'
import type { Statement } from '../../core/fees.ts'
import { type Finding, findingsOf, type PartnerVitals, type Vitals } from '../../core/findings.ts'
import {
  averagePrice,
  type Btc,
  CENT,
  formatBtc,
  formatPrice,
  formatUsd,
  type Price,
  priceAsNumber,
  type Usd,
  ZERO_USD,
} from '../../core/money.ts'
import { type FixedPeriod, periodOf } from '../../core/month.ts'
import type { Partner, Tenant } from '../../core/partner.ts'
import { quoted } from '../../core/text.ts'
import {
  DAY_MS,
  formatInstant,
  type Instant,
  monthOf,
  plus,
  spellInstant,
  spellSpan,
} from '../../core/time.ts'
import { awaitedPrice, type Schedule } from '../../core/window.ts'
import type { FiredTranche, OpenWindow, OpsPageStore, TradePlace, TradeSum } from '../../store/monitoring.ts'
import type { ListedPlan, Store } from '../../store/store.ts'
import { ago, type Html, html, link, type Part, tableOf } from './html.ts'
import { createStockTaker, keptFor, shared } from './readiness.ts'

/** How many findings are shown at once; the others can be unfolded. */
const FINDINGS_SHOWN = 8
const FINDINGS_MAX = 200
const TRANCHES_LISTED = 12

export const signInForm = (complaint: string | null): Html => html`<section>
<h2>Sign in</h2>
${complaint !== null && html`<p class="bad" role="alert">${complaint}</p>`}
<form class="signin" method="post"><label for="token">Ops token, as in the file of --ops-token-file</label>
<input id="token" name="token" type="password" required autocomplete="current-password" autofocus>
<button>Sign in</button></form>
</section>`

type Shown = { partners: Partner[]; found: number; page: number; search: string }

/** How a command is written on the page, to be pasted into a shell: it names the database of this service. */
export type Pasted = { line: (words: readonly string[]) => string; text: (message: string) => string }

export const AS_IT_IS: Pasted = { line: (words) => words.map(quoted).join(' '), text: (message) => message }

export function overviewParts(overview: Overview, partners: Shown, pasted: Pasted): Part[] {
  return [
    html`<section><h2>Findings</h2>
${overview.findings.length === 0 ? html`<p class="good">Nothing to look after.</p>` : findingList(overview.findings, pasted)}
<p class="quiet">Last tick: ${ago(overview.vitals.scheduler.lastFinishedAt, overview.now)}. <code>${pasted.line(['tranche', 'check'])}</code> looks for more: it reads
the whole file and recomputes the ledger, which no page does.</p></section>`,
    today(overview),
    html`<section><h2>Prices of the last ${PRICES_SHOWN_MS / DAY_MS} days, and the latest tranches</h2>
${drawPrices({ ...overview, to: overview.now })}
${tableOf(['Fired', 'Partner', 'Plan', '>USD', 'Status'], overview.tranches.slice(0, TRANCHES_LISTED).map(trancheRow), 'Nothing has fired yet.')}</section>`,
    html`<section><h2>Windows that end next with money left</h2>
${tableOf(
  ['Ends', 'Partner', 'Plan', '>Left USD', '>Budget USD'],
  overview.windows.map(({ end, tenant, partnerPlanId, left, budget }) => [
    html`${spellInstant(end)} <span class="aside">(${untilOrAgo(end, overview.now)})</span>`,
    partnerLink(tenant.partnerSlug),
    planLink(tenant, partnerPlanId),
    shownUsd(left),
    shownUsd(budget),
  ]),
  'No window has money left to fire.',
)}</section>`,
    partnerSection(overview, partners),
    monthSection(overview, null),
  ]
}

/** A window that is over is listed until a tick closes it. */
const untilOrAgo = (end: Instant, now: Instant): Html | string =>
  end > now ? `in ${spellSpan(end - now)}` : ago(end, now)

function findingList(findings: readonly Finding[], pasted: Pasted): Html {
  const items = findings.slice(0, FINDINGS_MAX).map(
    ({ severity, kind, subject, message, next }) => html`<div class="finding ${severity}">
<strong>${kind}</strong> ${subject}<p>${pasted.text(message)}</p><code>${pasted.line(next)}</code></div>`,
  )
  const more = findings.length - FINDINGS_SHOWN
  if (more <= 0) return html`${items}`
  return html`${items.slice(0, FINDINGS_SHOWN)}
<details><summary>${more} more</summary>${items.slice(FINDINGS_SHOWN)}</details>`
}

function today({ day: { total, since } }: Overview): Html {
  const average = averagePrice(total.usd, total.btc)
  return html`<section><h2>Purchases today</h2><dl>
<div><dt>Since</dt><dd>${spellInstant(since)}</dd></div>
<div><dt>Filled</dt><dd>${total.filled}</dd></div>
<div><dt>Failed</dt><dd class="${total.failed > 0 && 'bad'}">${total.failed}</dd></div>
<div><dt>USD</dt><dd>${shownUsd(total.usd)}</dd></div>
<div><dt>BTC</dt><dd>${formatBtc(total.btc)}</dd></div>
<div><dt>Average price</dt><dd>${average === null ? 'none' : shownPrice(average)}</dd></div>
</dl></section>`
}

function partnerSection(
  { partners, vitalsOf, day: { partners: bought }, now }: Overview,
  shown: Shown,
): Html {
  const pages = Math.max(1, Math.ceil(shown.found / ROWS_SHOWN))
  return html`<section id="partners"><h2>Partners</h2>
<form method="get" action="/ops#partners"><input name="q" value="${shown.search}" placeholder="Part of a name" aria-label="Part of a partner's name"> <button>Search</button></form>
${tableOf(
  ['Partner', 'Name', 'Status', 'Last poll', '>Due', '>Filled today', '>USD today', 'Failed in 24 h'],
  shown.partners.map(({ partnerSlug: slug, name, held, status }) => [
    partnerLink(slug),
    html`<span class="name">${name}</span>`,
    held ? html`<span class="wait">held</span>` : status,
    ago(vitalsOf.get(slug)?.polledAt ?? null, now),
    vitalsOf.get(slug)?.due ?? 0,
    bought.get(slug)?.filled ?? 0,
    shownUsd(bought.get(slug)?.usd ?? ZERO_USD),
    failures(vitalsOf.get(slug)),
  ]),
  partners.length === 0
    ? 'There is no partner yet: tranche partner create SLUG --name TEXT'
    : 'No partner has this name.',
)}
${pageLinks({ page: shown.page, pages, of: (page) => `${link('/ops', { q: shown.search || null, page })}#partners` })}</section>`
}

const failures = (vitals: PartnerVitals | undefined): Part =>
  vitals !== undefined &&
  vitals.orders.failed > 0 &&
  html`<span class="name bad">${vitals.orders.failed}${vitals.orders.commonestReason !== null && `: ${vitals.orders.commonestReason}`}</span>`

/** The months with something to download; for a single partner, with its invoices. */
function monthSection({ partners, now }: Pick<Overview, 'partners' | 'now'>, partner: Partner | null): Html {
  const created = (partner === null ? partners : [partner]).map(({ createdAt }) => createdAt)
  const first = created.length === 0 ? null : created.reduce((a, b) => (b < a ? b : a))
  const slug = partner?.partnerSlug ?? null
  const csv = (month: string, report: string): Html =>
    html`<a href="${link('/ops/export', { month, report, partner: slug })}">${report}.csv</a>`
  return html`<section><h2>Months</h2>
${tableOf(
  ['Month', 'Fees', 'CSV', ''],
  monthsSince(first, now).map((month) => [
    month,
    html`<a href="${link('/ops', { month })}">as billed</a>`,
    html`${csv(month, 'summary')} ${csv(month, 'users')} ${csv(month, 'trades')}`,
    slug !== null && html`<a href="${link('/ops/invoice', { month, partner: slug })}">invoice</a>`,
  ]),
  '',
)}</section>`
}

type PartnerView = { partner: Partner; environment: string; plans: ListedPlan[] }

export function partnerParts({ partner, environment, plans }: PartnerView, overview: Overview): Part[] {
  const { partnerSlug: slug } = partner
  const last = plans.length < ROWS_SHOWN ? null : plans.at(-1)
  const vitals = overview.vitalsOf.get(slug)
  return [
    html`<section><h2>${partner.name}</h2><dl>
<div><dt>Partner</dt><dd>${slug}</dd></div>
<div><dt>Status</dt><dd>${partner.held ? 'held' : partner.status}</dd></div>
<div><dt>Last poll</dt><dd>${ago(vitals?.polledAt ?? null, overview.now)}</dd></div>
<div><dt>Last confirmation</dt><dd>${ago(vitals?.confirmedAt ?? null, overview.now)}</dd></div>
<div><dt>Filled in 24 h</dt><dd>${vitals?.orders.filled ?? 0}</dd></div>
<div><dt>Failed in 24 h</dt><dd>${failures(vitals) || 0}</dd></div></dl></section>`,
    html`<section><h2>Plans, ${environment}</h2>
${tableOf(
  ['Plan', 'User', 'Status', 'Every', '>USD', 'Window ends', '>Spent USD'],
  plans.map((plan) => [
    planLink(plan.tenant, plan.partnerPlanId),
    html`<span class="name">${plan.partnerUserId}</span>`,
    plan.status,
    plan.frequency,
    shownUsd(plan.amount),
    plan.window === null ? '' : spellInstant(plan.window.end),
    plan.window === null ? '' : shownUsd(plan.window.spent),
  ]),
  'No plans here.',
)}
<nav>${last && html`<a href="${link('/ops', { partner: slug, env: environment, after: String(last.planId) })}">More plans</a>`}
<a href="${link('/ops', { partner: slug, env: environment === 'live' ? 'test' : 'live' })}">${environment === 'live' ? 'Test' : 'Live'} plans</a></nav></section>`,
    monthSection(overview, partner),
  ]
}

export function planParts({ plan, ...drawing }: PlanView): Part[] {
  const { schedule, window } = plan
  return [
    html`<section><h2><span class="name">${plan.partnerPlanId}</span></h2><dl>
<div><dt>Partner</dt><dd>${partnerLink(plan.tenant.partnerSlug)} ${plan.tenant.environment}</dd></div>
<div><dt>User</dt><dd>${plan.partnerUserId}</dd></div>
<div><dt>Status</dt><dd>${plan.status}</dd></div>
<div><dt>Amount</dt><dd>${shownUsd(plan.amount)} USD ${plan.frequency}</dd></div>
<div><dt>Waits for</dt><dd>${schedule === null ? 'nothing' : waitsFor(schedule)}</dd></div></dl></section>`,
    html`<section><h2>${window === null ? 'No open window' : `The window until ${spellInstant(window.end)}`}</h2>
${drawPrices(drawing)}
${tableOf(['Fired', 'Partner', 'Plan', '>USD', 'Status'], drawing.tranches.slice(0, ROWS_SHOWN).map(trancheRow), 'Nothing has fired yet.')}</section>`,
    html`<section><h2>Windows</h2>
${tableOf(
  ['From', 'To', '>Budget', '>Spent', '>Reserved', '>Released', 'Closed'],
  plan.windows
    .slice(-ROWS_SHOWN)
    .map((one) => [
      spellInstant(one.start),
      spellInstant(one.end),
      ...[one.budget, one.spent, one.reserved, one.released].map(shownUsd),
      one.closed?.reason ?? 'open',
    ]),
  'None yet.',
)}</section>`,
  ]
}

export function monthParts({ period, billed, page, pages }: MonthView): Part[] {
  const state = period.final ? 'final' : `so far, until ${spellInstant(period.end)}`
  return [
    html`<section><h2>${period.month}, ${state}</h2>
${tableOf(
  ['Partner', '>Trades', '>Users', '>Volume USD', '>Volume BTC', 'Tier', '>Bps', '>Fee USD', 'Downloads'],
  billed.map(({ statement }) => billingRow(statement)),
  'There were no partners in that month.',
)}
${pageLinks({ page, pages, of: (at) => link('/ops', { month: period.month, page: at }) })}</section>`,
  ]
}

const billingRow = ({ tenant, period, activity, tier, tierSource, fees }: Statement): Part[] => [
  partnerLink(tenant.partnerSlug),
  activity.executionsFilled + activity.executionsPartial,
  activity.activeUsers,
  shownUsd(activity.volume),
  formatBtc(activity.btc),
  `${tier.name} (${tierSource})`,
  tier.rateBps,
  shownUsd(fees.total),
  html`<a href="${link('/ops/export', { month: period.month, report: 'trades', partner: tenant.partnerSlug })}">trades.csv</a> <a href="${link('/ops/invoice', { month: period.month, partner: tenant.partnerSlug })}">invoice</a>`,
]

/** A price, or while there is none the instant at which it goes by the clock. */
function waitsFor(schedule: Schedule): string {
  const price = awaitedPrice(schedule)
  return price === null ? spellInstant(schedule.clockAt ?? schedule.nextRunAt) : `${shownPrice(price)} USD`
}

type Pages = { page: number; pages: number; of: (page: string) => string }

const pageLinks = ({ page, pages, of }: Pages): Html | false =>
  pages > 1 &&
  html`<nav>${page > 1 && html`<a href="${of(String(page - 1))}">Before</a>`}<span>${page} of ${pages}</span>${page < pages && html`<a href="${of(String(page + 1))}">After</a>`}</nav>`

// What several views show: a tranche, links to partners and plans, prices and dollars.

const partnerLink = (slug: string): Html => html`<a href="${link('/ops', { partner: slug })}">${slug}</a>`

const planLink = ({ partnerSlug, environment }: Tenant, plan: string): Html =>
  html`<a class="name" href="${link('/ops', { partner: partnerSlug, env: environment, plan })}">${plan}</a>`

const trancheRow = ({ createdAt, tenant, partnerPlanId, amount, status }: FiredTranche): Part[] => [
  spellInstant(createdAt),
  partnerLink(tenant.partnerSlug),
  planLink(tenant, partnerPlanId),
  shownUsd(amount),
  html`<span class="${status}">${status}</span>`,
]

/** A price to the cent, where a cent is little of it. */
export const shownPrice = (price: Price): string =>
  formatPrice(price < 100n * CENT ? price : ((((price + CENT / 2n) / CENT) * CENT) as Price))

/** Dollars to the cent; the exact amount is beside it for who points at it. */
export function shownUsd(amount: Usd): Part {
  const cents = (((amount + (amount < 0n ? -CENT : CENT) / 2n) / CENT) * CENT) as Usd
  if (cents === amount || cents === 0n) return formatUsd(amount)
  return html`<span title="${formatUsd(amount)}">${formatUsd(cents)}</span>`
}

// Prices as a line, with the tranches on it where they fired. The drawing stretches to any width, so its text is beside
// it.

const [WIDTH, HEIGHT] = [1_000, 190]

type Point = { at: Instant; price: Price }
type Drawing = { points: readonly Point[]; tranches: readonly FiredTranche[]; from: Instant; to: Instant }

export function drawPrices({ points, tranches, from, to }: Drawing): Html {
  const [first] = points
  if (!first) return html`<p class="quiet">There are no prices of this time: the schedule is a clock.</p>`
  const shown = tranches
    .filter(({ createdAt }) => createdAt >= from && createdAt <= to)
    .map((tranche) => ({ tranche, price: tranche.price ?? priceAt(points, tranche.createdAt) }))
  // A young service has a few hours of prices: they fill the width, and one alone is a line.
  const begin = [first, ...shown.map(({ tranche }) => ({ at: tranche.createdAt }))].reduce(
    (earliest, { at }) => (at < earliest ? at : earliest),
    first.at,
  )
  const prices = [...points, ...shown].map(({ price }) => price)
  const [low, high] = [least(prices), -least(prices.map((price) => -price))]
  const [bottom, top] = [priceAsNumber(low as Price), priceAsNumber(high as Price)]
  const x = (at: Instant): string => ((WIDTH * (at - begin)) / Math.max(1, to - begin)).toFixed(1)
  const y = (price: Price): string =>
    (top === bottom
      ? HEIGHT / 2
      : 8 + ((HEIGHT - 16) * (top - priceAsNumber(price))) / (top - bottom)
    ).toFixed(1)
  const end = points.at(-1) ?? first
  const line = [...points, { at: to, price: end.price }]
    .map(({ at, price }) => `${x(at)} ${y(price)}`)
    .join('L')
  return html`<figure>
<figcaption><span>${shownPrice(high as Price)} USD</span><span>${shown.length} ${shown.length === 1 ? 'tranche' : 'tranches'} on the line</span></figcaption>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Prices and tranches">
<path class="grid" d="M0 8H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT - 8}H${WIDTH}"/>
<path class="line" d="M${line}"/>
${shown.map(({ tranche, price }) => dot(tranche, `M${x(tranche.createdAt)} ${y(price)}h0`))}
</svg>
<figcaption><span>${shownPrice(low as Price)} USD</span></figcaption>
<figcaption><span>${clock(begin)}</span><span>${clock(to)}</span></figcaption>
</figure>`
}

/** A line of no length with round ends: a dot that does not become an ellipse when stretched. */
const dot = ({ status, createdAt, amount, partnerPlanId, tenant }: FiredTranche, place: string): Html =>
  html`<path class="dot ${status}" d="${place}"><title>${formatInstant(createdAt)} ${tenant.partnerSlug} ${partnerPlanId}: ${formatUsd(amount)} USD, ${status}</title></path>
`

/** The price that held at an instant. */
const priceAt = (points: readonly Point[], at: Instant): Price =>
  (points.findLast((point) => point.at <= at) ?? points[0])?.price ?? (0n as Price)

const least = (values: readonly bigint[]): bigint => values.reduce((a, b) => (b < a ? b : a))

const clock = (at: Instant): string => `${formatInstant(at).slice(0, 16).replace('T', ' ')} UTC`

// Their data, read from the store, as `status`, `check`, `plan show` and `billing show` compute it.

export const ROWS_SHOWN = 50
const MONTHS_SHOWN = 24
const WINDOWS_SHOWN = 15
const TRANCHES_DRAWN = 200
const PRICES_SHOWN_MS = 2 * DAY_MS
const PRICE_STEPS = 400
/** The data of the page is read at most this often, however often the page is asked for. */
const OVERVIEW_MS = 2_000

type Line = { at: Instant; price: Price }[]

type Overview = {
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
type PlanView = {
  now: Instant
  plan: Awaited<ReturnType<Store['findPlans']>>[number]
  from: Instant
  to: Instant
  points: Line
  tranches: FiredTranche[]
}
type MonthView = { period: FixedPeriod; billed: Billed[]; page: number; pages: number }

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
function monthsSince(first: Instant | null, now: Instant): string[] {
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
