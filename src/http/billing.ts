// Billing over HTTP: a month's statement, and each user's share of it page by page.

import { z } from 'zod'
import type { Listing } from '../billing/month-users-cache.ts'
import { bill, statementJson, totalsJson, userLineJson } from '../billing/statement.ts'
import { earlier, type Instant, MONTH_PATTERN } from '../core/instant.ts'
import { isMonth, periodOf } from '../core/month.ts'
import type { Tenant } from '../core/partner.ts'
import type { FixedPeriod } from '../core/report-period.ts'
import { monthlyAnswer, monthlyUsersAnswer } from './answers/billing-schemas.ts'
import { FieldError, field, said } from './fields.ts'
import { cursor, limit, ofItsMonth, PAGE_DEFAULT, type Places, wrap } from './paging.ts'
import { type CallStore, route } from './route.ts'

/** How a month is written. */
const MONTH_TEXT = { pattern: MONTH_PATTERN.source, maxLength: 7 }

export const month = field({ type: 'string', ...MONTH_TEXT }, (input) => {
  const known = typeof input === 'string' && isMonth(input)
  return known ? periodOf(input) : new FieldError('value_error', 'Value error, month must be written YYYY-MM')
})

/** Where a listing goes on: the end of the period that it covers, and the last user of the page before. */
type Place = { end: Instant; after: string }

const places: Places<Place> = {
  write: ({ end, after }) => `user ${end} ${after}`,
  read: (text) => {
    const [, end, after] = /^user (-?\d{1,15}) (.+)$/s.exec(text) ?? []
    return after === undefined ? null : { end: Number(end) as Instant, after }
  },
}

export const MONTH = said('The month, YYYY-MM, in UTC.', '2026-01')

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
      limit: limit.meta(said(`The users of a page; ${PAGE_DEFAULT} by default.`, PAGE_DEFAULT)).optional(),
      cursor: cursor(places)
        .meta(said('The next_cursor of the page before.', 'dXNlciAxNzY5OTA0MDAwMDAwIHVzZXItMQ'))
        .optional(),
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
      partner_slug: tenant.partnerSlug,
      environment: tenant.environment,
      month: query.month.month,
      users: page.map(userLineJson),
      totals,
      next_cursor: hasMore ? wrap(places.write({ end, after: last.partnerUserId })) : null,
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
