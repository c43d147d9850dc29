// Executions over HTTP: the list of them, and how one is written.

import { z } from 'zod'
import type { Execution } from '../core/execution.ts'
import { idempotencyKey } from '../core/idempotency-key.ts'
import { EARLIEST, formatInstant, type Instant } from '../core/instant.ts'
import { formatUsd } from '../core/money.ts'
import type { Tenant } from '../core/partner.ts'
import type { ExecutionPlace } from '../store/executions.ts'
import { type ExecutionJson, executionsAnswer } from './answers/schemas.ts'
import { datetime, said } from './fields.ts'
import { cursor, limit, PAGE_DEFAULT, type Places, pageOf } from './paging.ts'
import { route } from './route.ts'

/** Where a list of executions goes on. */
const places: Places<ExecutionPlace> = {
  write: ({ createdAt, executionId }) => `${createdAt} ${executionId}`,
  read: (text) => {
    const [, at, executionId = ''] = /^(-?\d{1,15}) (exec_[0-9a-f]{32})$/.exec(text) ?? []
    return at === undefined ? null : { createdAt: Number(at) as Instant, executionId }
  },
}
const BEGINNING = { createdAt: EARLIEST, executionId: '' }

export const getExecutions = route({
  method: 'GET',
  path: '/partner/v1/executions',
  query: z.object({
    since: datetime()
      .meta(said('Only those created then or later; by default all.', '2026-01-05T00:00:00Z'))
      .optional(),
    limit: limit.meta(said(`The executions of a page; ${PAGE_DEFAULT} by default.`, PAGE_DEFAULT)).optional(),
    cursor: cursor(places)
      .meta(
        said(
          'The next_cursor of the page before; since need not be sent with it.',
          'MTc2NzU3MTIwMDAwMCBleGVjXzAxOWI4YjlhMmMwMDdhMWI5YzJkM2U0ZjVhNmI3Yzhk',
        ),
      )
      .optional(),
  }),
  answer: executionsAnswer,
  handle: async ({ store, tenant, query: { since, limit: size = PAGE_DEFAULT, cursor } }) => {
    const begin = since === undefined ? BEGINNING : { createdAt: since, executionId: '' }
    const after = cursor && cursor.createdAt >= begin.createdAt ? cursor : begin
    const { executions, now } = await store.readExecutions(tenant, { after, limit: size + 1 })
    const { page, next_cursor } = pageOf(executions, size, places.write)
    return {
      partner_slug: tenant.partnerSlug,
      environment: tenant.environment,
      as_of: formatInstant(now),
      executions: page.map((execution) => ({
        ...executionJson(tenant, execution),
        status: execution.status,
      })),
      next_cursor,
    }
  },
})

export function executionJson(tenant: Tenant, execution: Execution): Omit<ExecutionJson, 'status'> {
  return {
    execution_id: execution.executionId,
    partner_slug: tenant.partnerSlug,
    partner_user_id: execution.partnerUserId,
    partner_plan_id: execution.partnerPlanId,
    side: 'buy',
    asset: 'BTC',
    spend_currency: 'USD',
    amount_usd: formatUsd(execution.amount),
    reason: 'smart_timing',
    idempotency_key: idempotencyKey(execution, formatInstant),
    created_at: formatInstant(execution.createdAt),
    lease_expires_at: execution.leaseExpiresAt === null ? null : formatInstant(execution.leaseExpiresAt),
    delivered_count: execution.deliveredCount,
  }
}
