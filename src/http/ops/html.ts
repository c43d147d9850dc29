// The HTML of the operator's page: a template that escapes, the repeated parts, the drawing, and the style.

import { createHash } from 'node:crypto'
import type { Statement } from '../../core/fees.ts'
import {
  CENT,
  formatBtc,
  formatPrice,
  formatUsd,
  type Price,
  priceAsNumber,
  type Usd,
} from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import { htmlText } from '../../core/text.ts'
import { formatInstant, type Instant, spellInstant, spellSpan } from '../../core/time.ts'
import type { FiredTranche } from '../../store/monitoring.ts'

/** A part of a page. Only `html` makes one. */
export class Html {
  readonly #text: string
  private constructor(text: string) {
    this.#text = text
  }
  /** The text of a template, with its parts escaped. */
  static of(strings: TemplateStringsArray, parts: readonly Part[]): Html {
    return new Html(strings.reduce((text, piece, i) => text + written(parts[i - 1]) + piece))
  }
  toString(): string {
    return this.#text
  }
}

/** Nothing is written for null, undefined and false. */
export type Part = Html | string | number | null | undefined | false | readonly Part[]

/** Parts may stand between tags, or in an attribute in double quotes. */
export const html = (strings: TemplateStringsArray, ...parts: Part[]): Html => Html.of(strings, parts)

const written = (part: Part | undefined): string => {
  if (part === undefined || part === null || part === false) return ''
  if (part instanceof Html) return part.toString()
  if (Array.isArray(part)) return part.map(written).join('')
  return htmlText(String(part))
}

/** The address of a view of the page, or of a download; null parameters are left out. */
export function link(
  path: '/ops' | '/ops/export' | '/ops/invoice',
  parameters: Record<string, string | null> = {},
): string {
  const given = Object.entries(parameters).flatMap(([name, value]) => (value === null ? [] : [[name, value]]))
  const query = new URLSearchParams(given).toString()
  return query === '' ? path : `${path}?${query}`
}

// What several parts of the page share: tables, times, links to partners and plans.

export const ago = (at: Instant | null, now: Instant): Html | string =>
  at === null
    ? 'never'
    : html`<time datetime="${formatInstant(at)}" title="${spellInstant(at)}">${spellSpan(now - at)} ago</time>`

/** A title that begins with > has its column aligned to the right. */
export function tableOf(
  titles: readonly string[],
  rows: readonly (readonly Part[])[],
  otherwise: string,
): Html {
  if (rows.length === 0) return html`<p class="quiet">${otherwise}</p>`
  const side = (at: number): Part => titles[at]?.startsWith('>') && 'right'
  return html`<div class="wide"><table><thead><tr>${titles.map((title, at) => html`<th class="${side(at)}">${title.replace('>', '')}</th>`)}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${row.map((cell, at) => html`<td class="${side(at)}" data-of="${titles[at]?.replace('>', '') ?? ''}"><span>${cell}</span></td>`)}</tr>\n`)}</tbody></table></div>`
}

export const partnerLink = (slug: string): Html =>
  html`<a href="${link('/ops', { partner: slug })}">${slug}</a>`

export const planLink = ({ partnerSlug, environment }: Tenant, plan: string): Html =>
  html`<a class="name" href="${link('/ops', { partner: partnerSlug, env: environment, plan })}">${plan}</a>`

export const trancheRow = ({ createdAt, tenant, partnerPlanId, amount, status }: FiredTranche): Part[] => [
  spellInstant(createdAt),
  partnerLink(tenant.partnerSlug),
  planLink(tenant, partnerPlanId),
  shownUsd(amount),
  html`<span class="${status}">${status}</span>`,
]

export const billingRow = ({ tenant, period, activity, tier, tierSource, fees }: Statement): Part[] => [
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

/** A price to the cent, where a cent is little of it. */
export const shownPrice = (price: Price): string =>
  formatPrice(price < 100n * CENT ? price : ((((price + CENT / 2n) / CENT) * CENT) as Price))

/** Dollars to the cent; the exact amount is beside it for who points at it. */
export function shownUsd(amount: Usd): Part {
  const cents = (((amount + (amount < 0n ? -CENT : CENT) / 2n) / CENT) * CENT) as Usd
  if (cents === amount || cents === 0n) return formatUsd(amount)
  return html`<span title="${formatUsd(amount)}">${formatUsd(cents)}</span>`
}

const clock = (at: Instant): string => `${formatInstant(at).slice(0, 16).replace('T', ' ')} UTC`

// The style sheet of the operator's page.

const SHEET = html`
:root { color-scheme: light dark; --ink: #1c1f24; --quiet: #5b6470; --line: #d8dce2; --card: #fff; --page: #f3f5f7;
  --link: #0b57a8; --good: #1a7f4b; --bad: #b3261e; --wait: #9a5b00; --badbg: #fdecea; --waitbg: #fff4e0; --price: #66707c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --quiet: #9aa4b1; --line: #333a44; --card: #1a1e24;
  --page: #111418; --link: #7db7ff; --good: #5fce93; --bad: #ff8a80; --wait: #ffc163; --badbg: #3a1d1b; --waitbg: #382a12; --price: #8b95a3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
header, main, footer { max-width: 1120px; margin: 0 auto; padding: 0 16px; }
header { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: baseline; padding-top: 16px; }
header form { margin-left: auto; }
h1 { font-size: 20px; margin: 0; }
h1 a { color: inherit; text-decoration: none; }
h2 { font-size: 16px; margin: 0 0 8px; }
p { margin: 0 0 8px; }
a { color: var(--link); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; margin: 14px 0; }
.quiet, th, figcaption, footer { color: var(--quiet); font-size: 13px; font-weight: 400; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-top: 1px solid var(--line); white-space: nowrap; }
thead th { border-top: 0; }
.name { display: inline-block; min-width: 9em; max-width: 30em; overflow-wrap: anywhere; white-space: normal; }
.right { text-align: right; padding-right: 14px; }
.filled, .good { color: var(--good); } .failed, .bad { color: var(--bad); } .partial, .wait { color: var(--wait); }
.cancelled { color: var(--quiet); }
.finding { border-left: 4px solid var(--wait); background: var(--waitbg); padding: 8px 12px; margin: 0 0 8px; border-radius: 4px; overflow-wrap: anywhere; }
.finding.page { border-color: var(--bad); background: var(--badbg); }
code { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.finding code { display: block; user-select: all; }
summary { cursor: pointer; margin: 4px 0 8px; }
dl { display: flex; flex-wrap: wrap; gap: 8px 32px; margin: 0; }
dt { color: var(--quiet); font-size: 13px; } dd { margin: 0; font-size: 19px; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
figure { margin: 0; } figcaption { display: flex; justify-content: space-between; gap: 8px; } figcaption span { white-space: nowrap; }
svg { display: block; width: 100%; height: 190px; overflow: visible; }
svg path { fill: none; vector-effect: non-scaling-stroke; }
.line { stroke: var(--price); stroke-width: 1.5; }
.dot { stroke: var(--wait); stroke-width: 8; stroke-linecap: round; }
.dot.filled { stroke: var(--good); } .dot.failed { stroke: var(--bad); } .dot.cancelled { stroke: var(--quiet); }
.grid { stroke: var(--line); stroke-width: 1; }
input, button { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--line); border-radius: 6px; padding: 6px 10px; }
button { cursor: pointer; }
form.signin { max-width: 380px; } form.signin input { width: 100%; margin: 4px 0 10px; }
nav { margin-top: 8px; display: flex; gap: 16px; }
@media (max-width: 600px) { thead { display: none; } table, tbody, tr { display: block; }
  tr { border-top: 1px solid var(--line); padding: 6px 0; }
  td, .right { display: flex; justify-content: space-between; gap: 16px; padding: 1px 0; border: 0; text-align: right; white-space: normal; }
  td::before { content: attr(data-of); color: var(--quiet); font-size: 13px; text-align: left; white-space: nowrap; }
  td > span { overflow-wrap: anywhere; } .name { min-width: 0; } .aside { display: block; } }
`

export const STYLE = html`<style>${SHEET}</style>`

/** The hash by which the content security policy names the sheet. */
const STYLE_HASH = createHash('sha256').update(String(SHEET)).digest('base64')

// The headers of the operator's page: what a browser may do with it.

/**
 * Allows only the style sheet with this hash, and forms to the same origin: no script, no picture, no outside address,
 * no frame around it.
 */
export const policyFor = (hash: string): string =>
  `default-src 'none'; style-src 'sha256-${hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`

export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': policyFor(STYLE_HASH),
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  // The page's address contains names of partners and plans, and it links to no other site.
  'referrer-policy': 'same-origin',
}
