// Which partners the metrics name: a bounded number, however many there are.

import type { Finding } from '../../core/findings.ts'
import type { PartnerSeen } from '../../core/vitals.ts'

/** Those with findings come first, then those with the most orders. */
export const PARTNERS_NAMED = 50

export function namedPartners(
  partners: readonly PartnerSeen[],
  findings: readonly Finding[],
): readonly PartnerSeen[] {
  if (partners.length <= PARTNERS_NAMED) return partners
  const weight = new Map<string, number>()
  for (const { tenant, severity } of findings) {
    if (tenant === null) continue
    const before = weight.get(tenant.partnerSlug) ?? 0
    weight.set(tenant.partnerSlug, Math.max(before, severity === 'page' ? 2 : 1))
  }
  const of = ({ tenant }: PartnerSeen) => weight.get(tenant.partnerSlug) ?? 0
  const orders = ({ orders: { filled, failed } }: PartnerSeen) => filled + failed
  return [...partners].sort((a, b) => of(b) - of(a) || orders(b) - orders(a)).slice(0, PARTNERS_NAMED)
}
