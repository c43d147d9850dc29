// What the billing of a month reads: statements and exports, all under one fixed period.

import type { Adjustment } from '../core/adjustment.ts'
import type { Report } from '../core/confirmation-report.ts'
import type { ExecutionId } from '../core/execution-id.ts'
import type { Activity } from '../core/fees.ts'
import type { Instant } from '../core/instant.ts'
import type { Btc, Usd } from '../core/money.ts'
import type { Period } from '../core/month.ts'
import type { Caller, Tenant } from '../core/partner.ts'
import type { FixedPeriod } from '../core/report-period.ts'
import type { Trade } from '../core/trade.ts'
import type { TenantFilter } from './partners.ts'

/** What a user's trades in a month, and the adjustments recorded in it, add up to. `trades` counts no adjustment. */
export type UserLine = { partnerUserId: string; trades: number; volume: Usd; btc: Btc; partnerFees: Usd }

/** The place of a line among the others. `number` is 0 for a trade, else that of the adjustment. */
export type LinePlace = { recordedAt: Instant; executionId: string; number: number }

/** One accepted confirmation or one adjustment of it, with the names a reader knows it by. */
export type TradeLine = LinePlace & {
  tenant: Tenant
  executionId: ExecutionId
  partnerUserId: string
  partnerPlanId: string
  entry:
    | { kind: 'trade'; report: Report; receivedAt: Instant | null }
    | { kind: 'adjustment'; partnerOrderId: string; adjustment: Adjustment }
}

/** An adjustment with the trade it corrects, as the trade was confirmed. */
export type AdjustmentLine = Omit<TradeLine, 'entry' | 'number'> & {
  /** Of the fill that is corrected, or of a further purchase. */
  partnerOrderId: string
  adjustment: Adjustment
  original: Trade
}

export interface MonthStore {
  /**
   * Fixes what a report of a month covers, by the time of the tenant it is about, or by the real time. A month that is
   * over is fixed whole and for good; the current one, up to now. No write is dated before that bound again, so
   * everything read under it is one state of the month. A month that is over by this clock alone is answered whole, but
   * not as final: a pass or a trade after its end has to confirm it.
   */
  fixPeriod(period: Period, tenant?: Tenant | null): Promise<FixedPeriod>
  /**
   * The same for a call of the tenant, which may be repeated often and must not keep others from writing. While closing
   * a month that is over would have to wait for somebody's write, that month is not final yet.
   */
  fixTenantPeriod(tenant: Caller, period: Period): Promise<FixedPeriod>
  /** A tenant's month and its users, by partner_user_id. */
  readActivity(tenant: Tenant, period: FixedPeriod): Promise<{ activity: Activity; users: UserLine[] }>
  /**
   * Accepted confirmations and adjustments: by recorded_at, then execution_id, then the trade before its adjustments
   * and those by their number.
   */
  readTradeLines(
    period: FixedPeriod,
    filter: TenantFilter,
    page: { after: LinePlace | null; limit: number },
  ): Promise<TradeLine[]>
  /** The same of one tenant, along its own index. */
  readTenantLines(
    tenant: Tenant,
    period: FixedPeriod,
    page: { after: LinePlace | null; limit: number },
  ): Promise<TradeLine[]>
  /** The adjustments alone, in the same order. */
  readAdjustmentLines(
    period: FixedPeriod,
    filter: TenantFilter,
    page: { after: AdjustmentLine | null; limit: number },
  ): Promise<AdjustmentLine[]>
  /** How many trade lines there are. */
  countTradeLines(period: FixedPeriod, filter: TenantFilter): Promise<number>
}
