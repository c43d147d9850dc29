// A partner: the row and the value.

import type { Instant } from '../../core/instant.ts'
import type { Usd } from '../../core/money.ts'
import type { Partner, PartnerStatus } from '../../core/partner.ts'
import { intact, withDigest } from '../digests.ts'
import { instant } from './instant.ts'

export type PartnerRow = {
  partner_slug: string
  name: string
  status: string
  min_tranche: bigint
  held: bigint
  created_at: bigint
  updated_at: bigint
}
export const partnerOf = (row: PartnerRow): Partner => ({
  partnerSlug: row.partner_slug,
  name: row.name,
  status: row.status as PartnerStatus,
  minTranche: row.min_tranche as Usd,
  held: row.held === 1n,
  createdAt: instant(row.created_at),
  updatedAt: instant(row.updated_at),
})
/** Of a partner whose row was read as `row`. Throws DamagedRow. */
export const changedPartnerParams = (row: PartnerRow, partner: Partner) =>
  withDigest('partners', {
    ...intact('partners', row),
    name: partner.name,
    status: partner.status,
    min_tranche: partner.minTranche,
    held: partner.held ? 1 : 0,
    updated_at: partner.updatedAt,
  })
/** Of a partner that is added at `now`. */
export const newPartnerParams = (
  partner: Pick<Partner, 'partnerSlug' | 'name' | 'minTranche'>,
  now: Instant,
) =>
  withDigest('partners', {
    partner_slug: partner.partnerSlug,
    name: partner.name,
    status: 'active',
    min_tranche: partner.minTranche,
    held: 0,
    created_at: now,
    updated_at: now,
  })
