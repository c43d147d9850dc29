// The two views of the operator's page and their data: the front page, and a month.

import { type ColumnOf, withTotal } from '../../billing/columns.ts'
import type { Row } from '../../billing/csv.ts'
import { bill, statementJson } from '../../billing/statement.ts'
import { type Finding, findingsOf, type PartnerVitals, type Vitals } from '../../core/findings.ts'
import {
  averagePrice,
  type Btc,
  CENT,
  formatBtc,
  formatCents,
  formatPrice,
  formatUsd,
  type Price,
  priceAsNumber,
  type Usd,
  usd,
  ZERO_USD,
} from '../../core/money.ts'
import { type FixedPeriod, periodOf } from '../../core/month.ts'
import { type Partner, showPlan } from '../../core/partner.ts'
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
import type { FiredTranche, OpenWindow, OpsPageStore, TradePlace, TradeSum } from '../../store/monitoring.ts'
import type { Store } from '../../store/store.ts'
import { ago, type Html, html, type Part, tableOf } from './html.ts'
import { createStockTaker, keptFor, shared } from './readiness.ts'

/** How many findings are shown at once; the others can be unfolded. */
const FINDINGS_SHOWN = 8
const FINDINGS_MAX = 200
const TRANCHES_LISTED = 10
export const PAGE_REPORTS = ['summary', 'users', 'trades'] as const

/** How a command is written on the page, to be pasted into a shell: it names the database of this service. */
export type Pasted = (words: readonly string[]) => string

export const AS_IT_IS: Pasted = (words) => words.map(quoted).join(' ')

export function overviewParts(overview: Overview, pasted: Pasted): Part[] {
  return [
    html`<section><h2>Findings</h2>
${overview.findings.length === 0 ? html`<p class="good">Nothing to look after.</p>` : findingList(overview.findings, pasted)}
<p class="quiet">Last tick: ${ago(overview.vitals.scheduler.lastFinishedAt, overview.now)}. <code>${pasted(['tranche', 'check'])}</code> looks for more: it reads
the whole file and recomputes the ledger, which no page does.</p></section>`,
    today(overview),
    html`<section><h2>Prices of the last ${PRICES_SHOWN_MS / DAY_MS} days, and the latest tranches</h2>
${drawPrices({ ...overview, to: overview.now })}
${tableOf(
  ['Fired', 'Status', '>USD', 'Partner', 'Plan', 'Command'],
  overview.tranches.slice(0, TRANCHES_LISTED).map(trancheRow(pasted)),
  'Nothing has fired yet.',
)}</section>`,
    html`<section><h2>Windows that end next with money left</h2>
${tableOf(
  ['Ends', '>Left USD', '>Budget USD', 'Partner', 'Plan', 'Command'],
  overview.windows.map(({ end, tenant, partnerPlanId, left, budget }) => [
    // A window that is over is listed until a tick closes it.
    html`${spellInstant(end)} (${end > overview.now ? `in ${spellSpan(end - overview.now)}` : ago(end, overview.now)})`,
    shownUsd(left),
    shownUsd(budget),
    tenant.partnerSlug,
    named(partnerPlanId),
    command(pasted, showPlan(partnerPlanId, tenant)),
  ]),
  'No window has money left to fire.',
)}</section>`,
    partnerSection(overview, pasted),
    monthSection(overview),
  ]
}

function findingList(findings: readonly Finding[], pasted: Pasted): Html {
  const items = findings.slice(0, FINDINGS_MAX).map(
    ({ severity, kind, subject, message, next }) => html`<div class="finding ${severity}">
<strong>${kind}</strong> ${subject}<p>${message}</p><code>${pasted(next)}</code></div>`,
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

function partnerSection({ partners, vitalsOf, day, now }: Overview, pasted: Pasted): Html {
  return html`<section id="partners"><h2>Partners</h2>
${tableOf(
  [
    'Partner',
    'Status',
    'Last poll',
    '>Due',
    '>Filled today',
    '>USD today',
    'Failed in 24 h',
    'Command',
    'Name',
  ],
  partners
    .slice(0, PARTNERS_SHOWN)
    .map(({ partnerSlug: slug, name, held, status }) => [
      slug,
      held ? html`<span class="wait">held</span>` : status,
      ago(vitalsOf.get(slug)?.polledAt ?? null, now),
      vitalsOf.get(slug)?.due ?? 0,
      day.partners.get(slug)?.filled ?? 0,
      shownUsd(day.partners.get(slug)?.usd ?? ZERO_USD),
      failures(vitalsOf.get(slug)),
      command(pasted, ['partner', 'show', slug]),
      named(name),
    ]),
  'There is no partner yet: tranche partner create SLUG --name TEXT',
)}
${others(partners.length - PARTNERS_SHOWN, pasted, ['partner', 'list'])}</section>`
}

const failures = (vitals: PartnerVitals | undefined): Part =>
  vitals !== undefined &&
  vitals.orders.failed > 0 &&
  html`<span class="name bad">${vitals.orders.failed}${vitals.orders.commonestReason !== null && `: ${vitals.orders.commonestReason}`}</span>`

function monthSection({ partners, now }: Overview): Html {
  const created = partners.map(({ createdAt }) => createdAt)
  const first = created.length === 0 ? now : created.reduce((a, b) => (b < a ? b : a))
  return html`<section><h2>Months</h2>
${tableOf(
  ['As billed', 'CSV of all partners'],
  monthsSince(first, now).map((month) => [html`<a href="/ops?month=${month}">${month}</a>`, csvLinks(month)]),
  '',
)}</section>`
}

/** The figures of `billing show`, to the last place, with its row of totals. */
export function monthParts({ period: { month, final, end }, rows }: MonthView, pasted: Pasted): Part[] {
  const state = final ? 'final' : `so far, until ${spellInstant(end)}`
  const total = withTotal('summary', rows).slice(rows.length)
  return [
    html`<section><h2>${month}, ${state}</h2>
${tableOf(
  [
    'Partner',
    '>Trades',
    '>Users',
    '>Volume USD',
    '>Volume BTC',
    'Tier',
    '>Bps',
    '>Fee USD',
    'CSV',
    'Command',
  ],
  [
    ...rows.slice(0, MONTH_ROWS_SHOWN).map(monthRow(pasted)),
    ...total.map((row) => [...monthCells(row), '', '']),
  ],
  'There were no partners in that month.',
)}
${others(rows.length - MONTH_ROWS_SHOWN, pasted, ['billing', 'show', '--month', month])}
<p class="quiet">CSV of all partners: ${csvLinks(month)}. For an invoice: ${command(pasted, ['billing', 'invoice', '--month', month, '--partner', 'SLUG'])}</p></section>`,
  ]
}

const monthCells = (row: Row<ColumnOf<'summary'>>): Part[] => [
  row.environment === null ? html`<strong>${row.partner_slug}</strong>` : row.partner_slug,
  row.trade_count,
  row.active_users,
  shownUsd(usd(String(row.volume_usd))),
  row.volume_btc,
  row.pricing_tier !== null && `${row.pricing_tier} (${row.pricing_tier_source})`,
  row.rate_bps,
  row.total_fee_usd,
]

const monthRow =
  (pasted: Pasted) =>
  (row: MonthRow): Part[] => [
    ...monthCells(row),
    csvLink({ month: row.month, report: 'trades', partner: row.partner_slug }),
    command(pasted, ['billing', 'show', '--month', row.month, '--partner', row.partner_slug]),
  ]

const named = (text: string): Html => html`<span class="name">${text}</span>`

const command = (pasted: Pasted, words: readonly string[]): Html =>
  html`<code>${pasted(['tranche', ...words])}</code>`

/** The number of rows that a long list leaves out, and the command that shows all. */
const others = (count: number, pasted: Pasted, all: readonly string[]): Html | false =>
  count > 0 && html`<p class="quiet">${count} more: ${command(pasted, all)}</p>`

const csvLink = (query: { month: string; report: string; partner?: string }): Html =>
  html`<a href="/ops/export?${new URLSearchParams(query).toString()}">${query.report}.csv</a>`

const csvLinks = (month: string): Part =>
  PAGE_REPORTS.map((report, at) => [at > 0 && ' ', csvLink({ month, report })])

const trancheRow =
  (pasted: Pasted) =>
  ({ executionId, createdAt, tenant, partnerPlanId, amount, status }: FiredTranche): Part[] => [
    spellInstant(createdAt),
    html`<span class="${status}">${status}</span>`,
    shownUsd(amount),
    tenant.partnerSlug,
    named(partnerPlanId),
    command(pasted, ['execution', 'show', executionId]),
  ]

/** A price to the cent, if a cent is little of it. */
export const shownPrice = (price: Price): string =>
  formatPrice(price < 100n * CENT ? price : ((((price + CENT / 2n) / CENT) * CENT) as Price))

/** Dollars to the cent; pointing at them shows the exact amount. */
export function shownUsd(amount: Usd): Part {
  const [cents, all] = [formatCents(amount), formatUsd(amount)]
  return cents === all ? all : html`<span title="${all}">${cents}</span>`
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

/** A dot: a line of no length with round ends, which does not become an ellipse when stretched. */
const dot = ({ status, createdAt, amount, partnerPlanId, tenant }: FiredTranche, place: string): Html =>
  html`<path class="dot ${status}" d="${place}"><title>${formatInstant(createdAt)} ${tenant.partnerSlug} ${partnerPlanId}: ${formatUsd(amount)} USD, ${status}</title></path>
`

const priceAt = (points: readonly Point[], at: Instant): Price =>
  (points.findLast((point) => point.at <= at) ?? points[0])?.price ?? (0n as Price)

const least = (values: readonly bigint[]): bigint => values.reduce((a, b) => (b < a ? b : a))

const clock = (at: Instant): string => `${formatInstant(at).slice(0, 16).replace('T', ' ')} UTC`

// The data of the views, read from the store as `status`, `check` and `billing show` do.

const PARTNERS_SHOWN = 50
const MONTH_ROWS_SHOWN = 200
const MONTHS_SHOWN = 24
const WINDOWS_SHOWN = 10
const TRANCHES_DRAWN = 200
const PRICES_SHOWN_MS = 2 * DAY_MS
const PRICE_STEPS = 400
/** The data of the page is read at most once in this time, however often it is requested. */
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
type MonthRow = ReturnType<typeof statementJson>
type MonthView = { period: FixedPeriod; rows: MonthRow[] }

/** Reads the front page, once for all who ask at about the same time. */
export function createOverviewReader(clock: () => Instant): (store: Store) => Promise<Overview> {
  const addUpDay = createDayCounter()
  const takeStock = createStockTaker()
  return keptFor(OVERVIEW_MS, clock, shared(readOverview))

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
      points: await store.samplePrices({ since: from, until: now }, PRICES_SHOWN_MS / PRICE_STEPS),
      tranches: await store.listTranches(TRANCHES_DRAWN),
      windows: await store.listOpenWindows(WINDOWS_SHOWN),
      partners: (await store.listPartners()).toSorted((a, b) => calm(a) - calm(b)),
    }
  }
}

export async function readMonth(store: Store, month: string): Promise<MonthView> {
  const whole = periodOf(month)
  const period = await store.fixPeriod(whole)
  const rows: MonthRow[] = []
  for (const tenant of await store.listTenants({ slug: null, environment: 'live' }, whole.end)) {
    rows.push(statementJson((await bill(store, tenant, period)).statement))
    await breathe()
  }
  return { period, rows }
}

const breathe = () => new Promise((resolve) => setImmediate(resolve))

function monthsSince(first: Instant, now: Instant): string[] {
  const months: string[] = []
  const earliest = monthOf(first)
  for (let month = monthOf(now); month >= earliest && months.length < MONTHS_SHOWN; ) {
    months.push(month)
    month = monthOf(plus(periodOf(month).start, -1))
  }
  return months
}

// Today's purchases of live partners, added up as they come in: each reading takes only the trades since the last one.

/** A UTC day. `total` has no partner's name. */
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
        const partner = day.partners.get(sum.partnerSlug) ?? nothing(sum.partnerSlug)
        day.partners.set(sum.partnerSlug, partner)
        for (const one of [partner, day.total]) {
          one.filled += sum.filled
          one.failed += sum.failed
          one.usd = (one.usd + sum.usd) as Usd
          one.btc = (one.btc + sum.btc) as Btc
        }
      }
      if (last === null) return day
      place = last
      await breathe()
    }
  }
}
