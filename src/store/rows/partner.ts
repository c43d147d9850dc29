// A partner: the row and the value.

import type { Usd } from '../../core/money.ts'
import type { Partner, PartnerStatus } from '../../core/partner.ts'
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
