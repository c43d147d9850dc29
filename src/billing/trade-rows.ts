// The rows of the trades report and of the adjustments report: what each column says of a fill, a failure or a
// correction.

import { formatInstant } from '../core/instant.ts'
import { formatBtc, formatPrice, formatUsd } from '../core/money.ts'
import { executedAtOf } from '../core/trade.ts'
import type { AdjustmentLine, TradeLine } from '../store/months.ts'
import type { AdjustmentColumn, TradeColumn } from './columns.ts'
import type { Row } from './csv.ts'

/** A line of a month as a row of its export. */
export const tradeRow = (line: TradeLine): Row<TradeColumn> =>
  line.entry.kind === 'trade' ? fillRow(line, line.entry) : adjustmentRow(line, line.entry)

/** A correction, signed: together with the fill it names it adds up to what really happened. */
function adjustmentRow(
  line: LineNames,
  { partnerOrderId, adjustment }: TradeLine['entry'] & { kind: 'adjustment' },
): Row<TradeColumn> {
  const { fill } = adjustment
  return {
    ...namesOf(line),
    partner_order_id: partnerOrderId,
    status: 'adjustment',
    usd_amount: formatUsd(adjustment.usd),
    btc_amount: formatBtc(adjustment.btc),
    execution_price: fill && formatPrice(fill.executionPrice),
    partner_fee_usd: fill?.partnerFee == null ? null : formatUsd(fill.partnerFee),
    executed_at: fill && formatInstant(fill.executedAt),
    failure_reason: adjustment.reason,
  }
}

/** An adjustment beside what it corrects: its own report, where the reason has a column to itself. */
export function adjustmentLineJson({ adjustment, original, partnerOrderId, ...line }: AdjustmentLine) {
  const fill = 'usdAmount' in original.report ? original.report : null
  return {
    ...namesOf(line),
    partner_order_id: partnerOrderId,
    adjustment: adjustment.adjustmentId,
    usd_difference: formatUsd(adjustment.usd),
    btc_difference: formatBtc(adjustment.btc),
    reason: adjustment.reason,
    original_recorded_at: formatInstant(original.recordedAt),
    original_status: original.report.status,
    original_order_id: original.report.partnerOrderId,
    original_usd_amount: fill && formatUsd(fill.usdAmount),
    original_btc_amount: fill && formatBtc(fill.btcAmount),
  } satisfies Row<AdjustmentColumn>
}

type LineNames = Omit<TradeLine, 'entry' | 'number'>

const namesOf = (line: LineNames) => ({
  recorded_at: formatInstant(line.recordedAt),
  partner_slug: line.tenant.partnerSlug,
  environment: line.tenant.environment,
  partner_user_id: line.partnerUserId,
  partner_plan_id: line.partnerPlanId,
  execution_id: line.executionId,
})

function fillRow(
  line: LineNames,
  { report, receivedAt }: TradeLine['entry'] & { kind: 'trade' },
): Row<TradeColumn> {
  const fill = 'usdAmount' in report ? report : null
  const names = namesOf(line)
  const executedAt = executedAtOf({ report, recordedAt: line.recordedAt, receivedAt })
  return {
    recorded_at: names.recorded_at,
    partner_slug: names.partner_slug,
    environment: names.environment,
    partner_user_id: names.partner_user_id,
    partner_plan_id: names.partner_plan_id,
    execution_id: names.execution_id,
    partner_order_id: report.partnerOrderId,
    status: report.status,
    usd_amount: fill && formatUsd(fill.usdAmount),
    btc_amount: fill && formatBtc(fill.btcAmount),
    execution_price: fill && formatPrice(fill.executionPrice),
    partner_fee_usd: fill?.partnerFee == null ? null : formatUsd(fill.partnerFee),
    executed_at: executedAt === null ? null : formatInstant(executedAt),
    failure_reason: 'failureReason' in report ? report.failureReason : null,
  }
}
