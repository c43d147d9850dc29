// Executions over HTTP: listed, polled and confirmed.

import { z } from 'zod'
import {
  confirm,
  FILL_BTC_MAX,
  FILL_FEE_MAX,
  FILL_PRICE_MAX,
  FILL_STATUSES,
  type Fill,
  isFill,
  NO_FILL_STATUSES,
  type NoFill,
  REPORT_STATUSES,
  type Report,
  type ReportColumn,
} from '../core/confirmation.ts'
import { DUE_PAGE_MAX, deliver, isExecutionId } from '../core/execution.ts'
import { type Btc, btc, type Price, price, usd, ZERO_USD } from '../core/money.ts'
import { type Caller, tenantJson } from '../core/partner.ts'
import { Problem } from '../core/problem.ts'
import { REASON_MAX } from '../core/text.ts'
import { EARLIEST, formatInstant, type Instant } from '../core/time.ts'
import type { ExecutionPlace } from '../store/store.ts'
import { dueJson, executionJson } from './answer-json.ts'
import { type ConfirmedJson, confirmedAnswer, duePageAnswer, executionsAnswer } from './answer-schemas.ts'
import {
  type Cursors,
  datetime,
  decimal,
  describe,
  id,
  oneOf,
  pageFields,
  pageOf,
  remark,
  rowsFor,
} from './fields.ts'
import { type CallStore, route } from './route.ts'

const cursors: Cursors<ExecutionPlace> = {
  write: ({ createdAt, executionId }) => `${createdAt} ${executionId}`,
  read: (text) => {
    const [, at, executionId = ''] = /^(-?\d{1,15}) (exec_[0-9a-f]{32})$/.exec(text) ?? []
    return at === undefined ? null : { createdAt: Number(at) as Instant, executionId }
  },
}

export const getExecutions = route({
  method: 'GET',
  path: '/partner/v1/executions',
  query: z.object({
    since: datetime()
      .meta(describe('Only those created then or later; by default all.', '2026-01-05T00:00:00Z'))
      .optional(),
    ...pageFields(
      'executions',
      cursors,
      'MTc2NzU3MTIwMDAwMCBleGVjXzAxOWI4YjlhMmMwMDdhMWI5YzJkM2U0ZjVhNmI3Yzhk',
      '; since need not be sent with it',
    ),
  }),
  answer: executionsAnswer,
  handle: async ({ store, tenant, query }) => {
    const begin = { createdAt: query.since ?? EARLIEST, executionId: '' }
    const after = query.cursor && query.cursor.createdAt >= begin.createdAt ? query.cursor : begin
    const { executions, now } = await store.readExecutions(tenant, { ...rowsFor(query), after })
    const { page, next_cursor } = pageOf(executions, query, cursors.write)
    return {
      ...tenantJson(tenant),
      as_of: formatInstant(now),
      executions: page.map((one) => ({ ...executionJson(tenant, one), status: one.status })),
      next_cursor,
    }
  },
})

// The order of the members is the order of errors in an answer, and follows the contract's field table.
const common = {
  partner_order_id: id().meta(describe('The order on your venue. Deduplicates retries.', 'order-1')),
}
const outcome = { description: 'The outcome.' }
const when = {
  executed_at: datetime()
    .meta(
      describe(
        'When it was filled, or failed; a fill without it has the time of its report.',
        '2026-01-05T00:00:30Z',
      ),
    )
    .nullish(),
}
export const fillBody = z.object({
  ...common,
  status: oneOf(FILL_STATUSES).meta(outcome),
  ...when,
  usd_amount: decimal(usd, { above: ZERO_USD }).meta(
    describe('Dollars spent: at most what was reserved.', '10.00'),
  ),
  btc_amount: decimal(btc, { above: 0n as Btc, atMost: FILL_BTC_MAX }).meta(
    describe('Bitcoin bought.', '0.00015564'),
  ),
  execution_price: decimal(price, { above: 0n as Price, atMost: FILL_PRICE_MAX }).meta(
    describe('Dollars per bitcoin.', '64250.50'),
  ),
  partner_fee_usd: decimal(usd, { atLeast: ZERO_USD, atMost: FILL_FEE_MAX })
    .meta(describe('The fee you charged the user.', '0.05'))
    .nullish(),
})
export const noFillBody = z.object({
  ...common,
  status: oneOf(NO_FILL_STATUSES).meta(outcome),
  ...when,
  failure_reason: remark({ max: REASON_MAX })
    .meta(
      describe(
        `Why nothing was bought; recommended with failed. Kept to ${REASON_MAX} characters: line breaks and tabs stay, ` +
          'other control characters become spaces.',
        'insufficient funds',
      ),
    )
    .nullish(),
})
/** Fits no report. A value with a valid status is checked by the rules of that status. */
const statusUnknown = z
  .object({ ...common, status: oneOf(REPORT_STATUSES), ...when })
  .transform(() => z.NEVER)

const reportedBy = (body: z.output<typeof fillBody | typeof noFillBody>) => ({
  partnerOrderId: body.partner_order_id,
  executedAt: body.executed_at ?? null,
})
const fill = fillBody.transform(
  (body): Fill => ({
    status: body.status,
    ...reportedBy(body),
    usdAmount: body.usd_amount,
    btcAmount: body.btc_amount,
    executionPrice: body.execution_price,
    partnerFee: body.partner_fee_usd ?? null,
  }),
)
const noFill = noFillBody.transform(
  (body): NoFill => ({
    status: body.status,
    ...reportedBy(body),
    failureReason: body.failure_reason || null,
  }),
)

/** The required fields of a report depend on its status; without a valid one, only the common fields are checked. */
const confirmBody = z.unknown().transform((input, context): Report => {
  const { status } = input as { status?: unknown }
  const isOf = (statuses: readonly unknown[]): boolean => statuses.includes(status)
  const schema: z.ZodType<Report> = isOf(FILL_STATUSES)
    ? fill
    : isOf(NO_FILL_STATUSES)
      ? noFill
      : statusUnknown
  const parsed = schema.safeParse(input)
  if (parsed.success) return parsed.data
  for (const issue of parsed.error.issues) context.issues.push({ ...issue, input } as z.core.$ZodRawIssue)
  return z.NEVER
})

const reportFields = {
  ...(fillBody.shape satisfies Record<ReportColumn<keyof Fill>, z.ZodType>),
  ...(noFillBody.shape satisfies Record<ReportColumn<keyof NoFill>, z.ZodType>),
}

export const postConfirm = route({
  method: 'POST',
  path: '/partner/v1/executions/:execution_id/confirm',
  body: confirmBody,
  // The contract ignores some of them, depending on the status, so they are not reported as unknown.
  fields: Object.keys(reportFields),
  answer: confirmedAnswer,
  handle: async ({ store, tenant, params, body: report }) => {
    const executionId = params.execution_id
    const ids = { executionId, partnerOrderId: report.partnerOrderId }
    const confirmation = await store
      .confirmExecution(tenant, ids, (facts, now) => confirm(facts, report, now))
      .catch((error: unknown) => keepUnknown(error, { store, tenant, executionId, report }))
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

type Reported = { store: CallStore; tenant: Caller; executionId: string; report: Report }

/**
 * Throws the error again. A purchase for an execution that the ledger lacks, because it was restored from a backup, is
 * first kept; the answer is the same as for every other unknown execution.
 */
async function keepUnknown(error: unknown, { store, tenant, executionId, report }: Reported): Promise<never> {
  const isUnknown = error instanceof Problem && error.code === 'execution_not_found'
  if (isUnknown && isFill(report) && isExecutionId(executionId))
    await store.keepUnknownFill(tenant, executionId, report)
  throw error
}

export const getDue = route({
  method: 'GET',
  path: '/partner/v1/executions/due',
  answer: duePageAnswer,
  handle: async ({ store, tenant, setHeader }) => {
    const { executions, remaining } = await store.deliverDue(tenant, DUE_PAGE_MAX, deliver)
    setHeader('x-due-remaining', String(remaining))
    return executions.map((execution) => dueJson(tenant, execution))
  },
})
