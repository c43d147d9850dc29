// The confirmation of an execution over HTTP: the fields of a report, and its answer.

import { z } from 'zod'
import { confirm } from '../core/confirmation.ts'
import { REPORT_STATUSES, type Report } from '../core/confirmation-report.ts'
import { FILL_BTC_MAX, FILL_FEE_MAX, FILL_PRICE_MAX } from '../core/fill-limits.ts'
import { type Btc, btc, type Price, price, usd, ZERO_USD } from '../core/money.ts'
import { REASON_MAX } from '../core/text-lengths.ts'
import { type ConfirmedJson, confirmedAnswer } from './answers/schemas.ts'
import { datetime, decimal, id, oneOf, remark, said } from './fields.ts'
import { route } from './route.ts'

// The order of the members is the order of errors in an answer; it is that of the contract's field table.
const common = {
  partner_order_id: id().meta(said('The order on your venue. Deduplicates retries.', 'order-1')),
}
const when = {
  executed_at: datetime().meta(said('When it was filled; by default now.', '2026-01-05T00:00:30Z')).nullish(),
}
export const fillBody = z.object({
  ...common,
  status: oneOf(REPORT_STATUSES),
  ...when,
  usd_amount: decimal(usd, { above: ZERO_USD }).meta(
    said('Dollars spent: at most what was reserved.', '10.00'),
  ),
  btc_amount: decimal(btc, { above: 0n as Btc, atMost: FILL_BTC_MAX }).meta(
    said('Bitcoin bought.', '0.00015564'),
  ),
  execution_price: decimal(price, { above: 0n as Price, atMost: FILL_PRICE_MAX }).meta(
    said('Dollars per bitcoin.', '64250.50'),
  ),
  partner_fee_usd: decimal(usd, { atLeast: ZERO_USD, atMost: FILL_FEE_MAX })
    .meta(said('The fee you charged the user.', '0.05'))
    .nullish(),
})
export const noFillBody = z.object({
  ...common,
  status: oneOf(REPORT_STATUSES),
  ...when,
  failure_reason: remark({ max: REASON_MAX })
    .meta(
      said(
        `Why nothing was bought; recommended with failed. Kept to ${REASON_MAX} characters: line breaks and tabs stay, ` +
          'other control characters become spaces.',
        'insufficient funds',
      ),
    )
    .nullish(),
})
const unknownBody = z.object({ ...common, status: oneOf(REPORT_STATUSES), ...when })

const NO_FILL: readonly unknown[] = ['failed', 'cancelled']
const FILL: readonly unknown[] = ['filled', 'partial']

/** Which fields a report needs depends on its status; without a valid one, only what every report has is checked. */
const confirmBody = z.unknown().transform((input, context): Report => {
  const { status } = input as { status?: unknown }
  const schema = FILL.includes(status) ? fillBody : NO_FILL.includes(status) ? noFillBody : unknownBody
  const parsed = schema.safeParse(input)
  if (parsed.success) return reportOf(parsed.data as Body)
  for (const issue of parsed.error.issues) context.issues.push({ ...issue, input } as z.core.$ZodRawIssue)
  return z.NEVER
})

type Body = z.output<typeof fillBody> & z.output<typeof noFillBody>

function reportOf(body: Body): Report {
  const common = { partnerOrderId: body.partner_order_id, executedAt: body.executed_at ?? null }
  if (body.status === 'failed' || body.status === 'cancelled') {
    return { status: body.status, ...common, failureReason: body.failure_reason || null }
  }
  return {
    status: body.status,
    ...common,
    usdAmount: body.usd_amount,
    btcAmount: body.btc_amount,
    executionPrice: body.execution_price,
    partnerFee: body.partner_fee_usd ?? null,
  }
}

export const postConfirm = route({
  method: 'POST',
  path: '/partner/v1/executions/:execution_id/confirm',
  body: confirmBody,
  // Those of every status: the contract wants some of them ignored, and they are no mistake.
  fields: Object.keys({ ...fillBody.shape, ...noFillBody.shape }),
  answer: confirmedAnswer,
  handle: async ({ store, tenant, params, body: report }) => {
    const executionId = params.execution_id ?? ''
    const ids = { executionId, partnerOrderId: report.partnerOrderId }
    const confirmation = await store.changeExecution(tenant, ids, (seen, now) => confirm(seen, report, now))
    if (confirmation.kind === 'refused') throw confirmation.problem
    const { partnerOrderId, status } = report
    const answer: ConfirmedJson = {
      ok: true,
      execution_id: executionId,
      status,
      partner_order_id: partnerOrderId,
    }
    return confirmation.kind === 'replayed' ? { ...answer, replayed: true as const } : answer
  },
})
