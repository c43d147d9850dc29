// Billing over HTTP: a month's statement, each user's share of it, and its trades, page by page.

import { z } from 'zod'
import { tradeRow } from '../billing/export.ts'
import { bill, type Listing, statementJson, totalsJson, userLineJson } from '../billing/statement.ts'
import { type FixedPeriod, isMonth, periodOf } from '../core/month.ts'
import { type Tenant, tenantJson } from '../core/partner.ts'
import { earlier, type Instant, MONTH_PATTERN } from '../core/time.ts'
import type { LinePlace } from '../store/store.ts'
import { monthlyAnswer, monthlyUsersAnswer, tradeAnswer, tradesAnswer } from './answer-schemas.ts'
import {
  type Cursors,
  describe,
  FieldError,
  field,
  ofItsMonth,
  PAGE_DEFAULT,
  pageFields,
  pageOf,
  rowsFor,
  wrap,
} from './fields.ts'
import { type CallStore, route } from './route.ts'

const month = field({ type: 'string', pattern: MONTH_PATTERN.source, maxLength: 7 }, (input) => {
  const known = typeof input === 'string' && isMonth(input)
  return known ? periodOf(input) : new FieldError('value_error', 'Value error, month must be written YYYY-MM')
})

/** Where a listing continues: the end of the period that it covers, and the last user of the previous page. */
type Place = { end: Instant; after: string }

const userCursors: Cursors<Place> = {
  write: ({ end, after }) => `user ${end} ${after}`,
  read: (text) => {
    const [, end, after] = /^user (-?\d{1,15}) (.+)$/s.exec(text) ?? []
    return after === undefined ? null : { end: Number(end) as Instant, after }
  },
}

const MONTH = describe('The month, YYYY-MM, in UTC.', '2026-01')

export const getMonthly = route({
  method: 'GET',
  path: '/partner/v1/billing/monthly',
  query: z.object({ month: month.meta(MONTH) }),
  answer: monthlyAnswer,
  handle: async ({ store, tenant, query, alone }) => {
    const { statement } = await alone(async () =>
      bill(store, tenant, await store.fixTenantPeriod(tenant, query.month)),
    )
    return statementJson(statement)
  },
})

export const getMonthlyUsers = route({
  method: 'GET',
  path: '/partner/v1/billing/monthly/users',
  query: z
    .object({
      month: month.meta(MONTH),
      ...pageFields('users', userCursors, 'dXNlciAxNzY5OTA0MDAwMDAwIHVzZXItMQ'),
    })
    .superRefine(ofItsMonth<Place>(({ end }, month) => end > month.start && end <= month.end)),
  answer: monthlyUsersAnswer,
  handle: async ({ store, tenant, query, alone, listings }) => {
    const fixed = await alone(() => store.fixTenantPeriod(tenant, query.month))
    const end = query.cursor ? earlier(query.cursor.end, fixed.end) : fixed.end
    const listing = `${tenant.tenantId} ${fixed.month} ${end}`
    const known = query.cursor ? listings.find(listing) : null
    const drawn = known ?? (await alone(() => draw(store, tenant, { ...fixed, end })))
    const { users, totals } = drawn
    const from = query.cursor ? firstAfter(users, query.cursor.after) : 0
    const page = users.slice(from, from + (query.limit ?? PAGE_DEFAULT))
    const last = page.at(-1)
    const hasMore = last !== undefined && from + page.length < users.length
    if (hasMore && !known) listings.keep(listing, drawn)
    return {
      ...tenantJson(tenant),
      month: query.month.month,
      users: page.map(userLineJson),
      totals,
      next_cursor: hasMore ? wrap(userCursors.write({ end, after: last.partnerUserId })) : null,
    }
  },
})

async function draw(store: CallStore, tenant: Tenant, period: FixedPeriod): Promise<Listing> {
  const { users } = await bill(store, tenant, period)
  return { users, totals: totalsJson(users) }
}

/** The place of the first user after an id, among users in the order of their ids. */
function firstAfter(users: readonly { partnerUserId: string }[], id: string): number {
  let [low, high] = [0, users.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((users[middle]?.partnerUserId ?? '') > id) high = middle
    else low = middle + 1
  }
  return low
}

const tradeCursors: Cursors<LinePlace> = {
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
      ...pageFields(
        'trades',
        tradeCursors,
        'MTc2NzYwMDAwMDAwMCBleGVjXzAxOWI4YjlhMmMwMDdhMWI5YzJkM2U0ZjVhNmI3YzhkIDA',
      ),
    })
    .superRefine(ofItsMonth<LinePlace>(({ recordedAt: at }, { start, end }) => at >= start && at < end)),
  answer: tradesAnswer,
  handle: ({ store, tenant, query, alone }) =>
    alone(async () => {
      // Later records have later dates and come on a later page, so nothing is missed or repeated.
      const period = await store.fixTenantPeriod(tenant, query.month)
      const lines = await store.readTenantLines(tenant, period, rowsFor(query))
      const { page, next_cursor } = pageOf(lines, query, tradeCursors.write)
      return {
        ...tenantJson(tenant),
        month: period.month,
        final: period.final,
        trades: page.map((line) => tradeAnswer.parse(tradeRow(line))),
        next_cursor,
      }
    }),
})
