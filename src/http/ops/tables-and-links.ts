// What several parts of the page write in the same way: tables, times, links to partners and plans.

import { spellSpan } from '../../core/duration-words.ts'
import type { Statement } from '../../core/fees.ts'
import { formatInstant, type Instant, spellInstant } from '../../core/instant.ts'
import { formatBtc, formatUsd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { FiredTranche } from '../../store/ops-page.ts'
import { type Html, html, link, type Part } from './html.ts'

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
<tbody>${rows.map((row) => html`<tr>${row.map((cell, at) => html`<td class="${side(at)}">${cell}</td>`)}</tr>\n`)}</tbody></table></div>`
}

export const partnerLink = (slug: string): Html =>
  html`<a href="${link('/ops', { partner: slug })}">${slug}</a>`

export const planLink = ({ partnerSlug, environment }: Tenant, plan: string): Html =>
  html`<a class="name" href="${link('/ops', { partner: partnerSlug, env: environment, plan })}">${plan}</a>`

export const trancheRow = ({ createdAt, tenant, partnerPlanId, amount, status }: FiredTranche): Part[] => [
  spellInstant(createdAt),
  partnerLink(tenant.partnerSlug),
  planLink(tenant, partnerPlanId),
  formatUsd(amount),
  html`<span class="${status}">${status}</span>`,
]

export const billingRow = ({ tenant, period, activity, tier, tierSource, fees }: Statement): Part[] => [
  partnerLink(tenant.partnerSlug),
  activity.executionsFilled + activity.executionsPartial,
  activity.activeUsers,
  formatUsd(activity.volume),
  formatBtc(activity.btc),
  `${tier.name} (${tierSource})`,
  tier.rateBps,
  formatUsd(fees.total),
  html`<a href="${link('/ops/export', { month: period.month, report: 'trades', partner: tenant.partnerSlug })}">trades.csv</a> <a href="${link('/ops/invoice', { month: period.month, partner: tenant.partnerSlug })}">invoice</a>`,
]
