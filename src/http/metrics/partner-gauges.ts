// The numbers for Prometheus that name a partner.

import type { Finding } from '../../core/findings.ts'
import type { Instant } from '../../core/instant.ts'
import type { PartnerSeen } from '../../core/vitals.ts'
import { type AddGauge, since } from './gauge.ts'
import { namedPartners, PARTNERS_NAMED } from './named-partners.ts'

export function createPartnerGauges(add: AddGauge) {
  const gauges = {
    finding: add('partner_finding', '1 for each thing that tranche status warns of for a live partner.', [
      'partner',
      'kind',
      'severity',
    ]),
    held: add('partner_held', '1 if its plans are held (tranche partner hold), else 0.', ['partner']),
    polled: add('partner_last_poll_age_seconds', 'Time since the last poll; absent before the first.', [
      'partner',
    ]),
    confirmed: add(
      'partner_last_confirm_age_seconds',
      'Time since the last confirmation; absent before the first.',
      ['partner'],
    ),
    oldestDue: add('partner_due_oldest_age_seconds', 'Age of its oldest due execution; 0 without one.', [
      'partner',
    ]),
    orders: add('partner_orders', 'Confirmations of the last 24 hours, by what came of the order.', [
      'partner',
      'result',
    ]),
  }
  const unnamed = add(
    'partners_unnamed',
    `Live partners that are left out above, because ${PARTNERS_NAMED} are named.`,
  )

  return (partners: readonly PartnerSeen[], findings: readonly Finding[], now: Instant): void => {
    for (const gauge of Object.values(gauges)) gauge.reset()
    const named = namedPartners(partners, findings)
    unnamed.set(partners.length - named.length)
    const slugs = new Set<string>()
    for (const { tenant, held, polledAt, confirmedAt, oldestDueAt, orders } of named) {
      const partner = tenant.partnerSlug
      slugs.add(partner)
      gauges.held.set({ partner }, held ? 1 : 0)
      if (polledAt !== null) gauges.polled.set({ partner }, since(polledAt, now))
      if (confirmedAt !== null) gauges.confirmed.set({ partner }, since(confirmedAt, now))
      gauges.oldestDue.set({ partner }, oldestDueAt === null ? 0 : since(oldestDueAt, now))
      gauges.orders.set({ partner, result: 'filled' }, orders.filled)
      gauges.orders.set({ partner, result: 'failed' }, orders.failed)
    }
    for (const { tenant, kind, severity } of findings)
      if (tenant && slugs.has(tenant.partnerSlug))
        gauges.finding.set({ partner: tenant.partnerSlug, kind, severity }, 1)
  }
}
