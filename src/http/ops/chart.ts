// Prices as a line, and the tranches on it where they fired. It stretches to any width, so its text is beside it.

import { formatInstant, type Instant } from '../../core/instant.ts'
import { formatPrice, formatUsd, type Price, priceAsNumber } from '../../core/money.ts'
import type { FiredTranche } from '../../store/ops-page.ts'
import { type Html, html } from './html.ts'

const [WIDTH, HEIGHT] = [1_000, 190]

type Point = { at: Instant; price: Price }
type Drawing = { points: readonly Point[]; tranches: readonly FiredTranche[]; from: Instant; to: Instant }

export function drawPrices({ points, tranches, from, to }: Drawing): Html {
  const first = points[0]
  if (!first) return html`<p class="quiet">There are no prices of this time: the schedule is a clock.</p>`
  const shown = tranches
    .filter(({ createdAt }) => createdAt >= from && createdAt <= to)
    .map((tranche) => ({ tranche, price: tranche.price ?? priceAt(points, tranche.createdAt) }))
  const prices = [...points, ...shown].map(({ price }) => price)
  const [low, high] = [least(prices), -least(prices.map((price) => -price))]
  const [bottom, top] = [priceAsNumber(low as Price), priceAsNumber(high as Price)]
  const x = (at: Instant): string => ((WIDTH * (at - from)) / Math.max(1, to - from)).toFixed(1)
  const y = (price: Price): string =>
    (top === bottom
      ? HEIGHT / 2
      : 8 + ((HEIGHT - 16) * (top - priceAsNumber(price))) / (top - bottom)
    ).toFixed(1)
  const line = points.map(({ at, price }) => `${x(at)} ${y(price)}`).join('L')
  return html`<figure>
<figcaption><span>${formatPrice(high as Price)} USD</span><span>${shown.length} ${shown.length === 1 ? 'tranche' : 'tranches'} on the line</span></figcaption>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Prices and tranches">
<path class="grid" d="M0 8H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT - 8}H${WIDTH}"/>
<path class="line" d="M${line}"/>
${shown.map(({ tranche, price }) => dot(tranche, `M${x(tranche.createdAt)} ${y(price)}h0`))}
</svg>
<figcaption><span>${formatPrice(low as Price)} USD</span></figcaption>
<figcaption><span>${clock(from)}</span><span>${clock(to)}</span></figcaption>
</figure>`
}

/** A line of no length with round ends: a dot that stretching does not turn into an ellipse. */
const dot = ({ status, createdAt, amount, partnerPlanId, tenant }: FiredTranche, place: string): Html =>
  html`<path class="dot ${status}" d="${place}"><title>${formatInstant(createdAt)} ${tenant.partnerSlug} ${partnerPlanId}: ${formatUsd(amount)} USD, ${status}</title></path>
`

/** The price that held at an instant. */
const priceAt = (points: readonly Point[], at: Instant): Price =>
  (points.findLast((point) => point.at <= at) ?? points[0])?.price ?? (0n as Price)

const least = (values: readonly bigint[]): bigint => values.reduce((a, b) => (b < a ? b : a))

const clock = (at: Instant): string => `${formatInstant(at).slice(0, 16).replace('T', ' ')} UTC`
