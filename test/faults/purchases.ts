// Purchases and reports of partners in tests that kill, and the length of their leases.

import { MINUTE_MS } from '../../src/core/time.ts'

export type Due = {
  execution_id: string
  idempotency_key: string
  amount_usd: string
  lease_expires_at: string
  delivered_count: number
}
export type Report = {
  partner_order_id: string
  status: 'filled' | 'partial' | 'failed'
  usd_amount?: string
}

export const LEASE_MS = 5 * MINUTE_MS

export const CONSENT = {
  consent_accepted: true,
  consent_version: 'v1',
  consent_timestamp: '2026-01-01T00:00:00Z',
}

/** A random report: mostly the whole amount, sometimes a part of it or nothing. */
export function anyReport(random: () => number, partner_order_id: string, amount: string): Report {
  const kind = random()
  if (kind < 0.1) return { partner_order_id, status: 'failed' }
  const part = { partner_order_id, btc_amount: '0.00010000', execution_price: '60000.00' }
  if (kind < 0.2) return { ...part, status: 'partial', usd_amount: '0.50' }
  return { ...part, status: 'filled', usd_amount: amount }
}

/** Daily or weekly, of a round amount or of one that is hard to divide. */
export const anyTerms = (random: () => number) => ({
  frequency: random() < 0.7 ? 'daily' : 'weekly',
  amount_usd: random() < 0.5 ? '60.00' : '17.77',
})
