// Trades over HTTP: what was recorded in a month, confirmations and adjustments, in the order they were recorded.

import { z } from 'zod'
import { tradeRow } from '../billing/trade-rows.ts'
import type { Instant } from '../core/instant.ts'
import type { LinePlace } from '../store/months.ts'
import { tradeAnswer, tradesAnswer } from './answers/billing-schemas.ts'
import { MONTH, month } from './billing.ts'
import { said } from './fields.ts'
import { cursor, limit, ofItsMonth, PAGE_DEFAULT, type Places, pageOf } from './paging.ts'
import { route } from './route.ts'

const places: Places<LinePlace> = {
  write: ({ recordedAt, executionId, number }) => `${recordedAt} ${executionId} ${number}`,
  read: (text) => {
    const [, at, executionId = '', number] = /^(-?\d{1,15}) (exec_[0-9a-f]{32}) (\d{1,15})$/.exec(text) ?? []
    return at === undefined
      ? null
      : { recordedAt: Number(at) as Instant, executionId, number: Number(number) }
  },
}

export const getTrades = route({
  method: 'GET',
  path: '/partner/v1/trades',
  query: z
    .object({
      month: month.meta(MONTH),
      limit: limit.meta(said(`The trades of a page; ${PAGE_DEFAULT} by default.`, PAGE_DEFAULT)).optional(),
      cursor: cursor(places)
        .meta(
          said(
            'The next_cursor of the page before.',
            'MTc2NzYwMDAwMDAwMCBleGVjXzAxOWI4YjlhMmMwMDdhMWI5YzJkM2U0ZjVhNmI3YzhkIDA',
          ),
        )
        .optional(),
    })
    .superRefine(ofItsMonth<LinePlace>(({ recordedAt: at }, { start, end }) => at >= start && at < end)),
  answer: tradesAnswer,
  handle: async ({ store, tenant, query, alone }) => {
    const size = query.limit ?? PAGE_DEFAULT
    const { period, lines } = await alone(async () => {
      // What is recorded from here on is dated later, and comes on a later page: nothing is missed and nothing comes
      // twice.
      const period = await store.fixTenantPeriod(tenant, query.month)
      const page = { after: query.cursor ?? null, limit: size + 1 }
      return { period, lines: await store.readTenantLines(tenant, period, page) }
    })
    const { page, next_cursor } = pageOf(lines, size, places.write)
    return {
      partner_slug: tenant.partnerSlug,
      environment: tenant.environment,
      month: period.month,
      final: period.final,
      trades: page.map((line) => tradeAnswer.parse(tradeRow(line))),
      next_cursor,
    }
  },
})
