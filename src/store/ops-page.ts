// What only the operator's page asks for: a few rows each, however much data there is.

import type { Execution } from '../core/execution.ts'
import type { Instant } from '../core/instant.ts'
import type { Btc, Price, Usd } from '../core/money.ts'
import type { Tenant } from '../core/partner.ts'

/** A place in the order of live and test trades. */
export type TradePlace = { recordedAt: Instant; executionId: string }
/** What a partner's live trades come to; `failed` counts confirmations with nothing bought. */
export type TradeSum = { partnerSlug: string; filled: number; failed: number; usd: Usd; btc: Btc }
/** A live window that is open and has money left to fire. */
export type OpenWindow = {
  tenant: Tenant
  partnerPlanId: string
  start: Instant
  end: Instant
  budget: Usd
  left: Usd
}
export type FiredTranche = Pick<
  Execution,
  'executionId' | 'partnerPlanId' | 'amount' | 'status' | 'createdAt'
> & {
  tenant: Tenant
  price: Price | null
}

export interface OpsPageStore {
  /**
   * Adds up at most `limit` trades after a place and up to an instant, the live ones by partner; `last` is null when
   * there are none. Without that end, a sandbox that is ahead would lead past everything that is still to come.
   */
  sumTradesAfter(
    after: TradePlace,
    until: Instant,
    limit: number,
  ): Promise<{ sums: TradeSum[]; last: TradePlace | null }>
  /** The one that ends next comes first. */
  listOpenWindows(limit: number): Promise<OpenWindow[]>
  /** The newest first: of a plan, or the live ones among the latest of all. */
  listTranches(planId: number | null, limit: number): Promise<FiredTranche[]>
  /** One price in each step of time since an instant, oldest first. */
  samplePrices(since: Instant, stepMs: number): Promise<{ at: Instant; price: Price }[]>
}
