// Billing over HTTP: a month's statement, and each user's share of it page by page.

import { z } from 'zod'
import { bill, statementJson, totalsJson, userLineJson } from '../billing/statement.ts'
import { MONTH_PATTERN } from '../core/instant.ts'
import { isMonth, periodOf } from '../core/month.ts'
import { monthlyAnswer, monthlyUsersAnswer } from './answer-schemas.ts'
import { FieldError, field, said } from './fields.ts'
import { route } from './route.ts'

const USERS_PAGE_DEFAULT = 100
export const USERS_PAGE_MAX = 1_000

const month = field({ type: 'string', pattern: MONTH_PATTERN.source }, (input) => {
  const known = typeof input === 'string' && isMonth(input)
  return known ? periodOf(input) : new FieldError('value_error', 'Value error, month must be written YYYY-MM')
})

const limit = field({ type: 'integer', minimum: 1, maximum: USERS_PAGE_MAX }, (input) => {
  if (typeof input !== 'string' || !/^-?\d+$/.test(input)) {
    return new FieldError(
      'int_parsing',
      'Input should be a valid integer, unable to parse string as an integer',
    )
  }
  const value = Number(input)
  if (value < 1) return new FieldError('greater_than_equal', 'Input should be greater than or equal to 1')
  if (value > USERS_PAGE_MAX)
    return new FieldError('less_than_equal', `Input should be less than or equal to ${USERS_PAGE_MAX}`)
  return value
})

/** A cursor is the last user of the page before, wrapped so that nobody takes it apart. */
const cursor = field({ type: 'string' }, (input) => {
  const id = typeof input === 'string' ? Buffer.from(input, 'base64url').toString('utf8') : ''
  return id !== '' && wrap(id) === input
    ? id
    : new FieldError('value_error', 'Value error, cursor is not one of a page')
})

const wrap = (partnerUserId: string): string => Buffer.from(partnerUserId, 'utf8').toString('base64url')

const MONTH = said('The month, YYYY-MM, in UTC.', '2026-01')

export const getMonthly = route({
  method: 'GET',
  path: '/partner/v1/billing/monthly',
  query: z.object({ month: month.meta(MONTH) }),
  answer: monthlyAnswer,
  handle: async ({ store, tenant, query, alone }) => {
    const { statement } = await alone(async () =>
      bill(store, tenant, await store.fixPeriod(query.month, tenant)),
    )
    return statementJson(statement)
  },
})

export const getMonthlyUsers = route({
  method: 'GET',
  path: '/partner/v1/billing/monthly/users',
  query: z.object({
    month: month.meta(MONTH),
    limit: limit
      .meta(said(`The users of a page; ${USERS_PAGE_DEFAULT} by default.`, USERS_PAGE_DEFAULT))
      .optional(),
    cursor: cursor.meta(said('The next_cursor of the page before.', 'dXNlci0x')).optional(),
  }),
  answer: monthlyUsersAnswer,
  handle: async ({ store, tenant, query, alone }) => {
    const { users } = await alone(async () => bill(store, tenant, await store.fixPeriod(query.month, tenant)))
    const from =
      query.cursor === undefined ? 0 : users.findIndex((user) => user.partnerUserId > (query.cursor ?? ''))
    const rest = from < 0 ? [] : users.slice(from)
    const page = rest.slice(0, query.limit ?? USERS_PAGE_DEFAULT)
    const last = page.at(-1)
    return {
      partner_slug: tenant.partnerSlug,
      environment: tenant.environment,
      month: query.month.month,
      users: page.map(userLineJson),
      totals: totalsJson(users),
      next_cursor: last && page.length < rest.length ? wrap(last.partnerUserId) : null,
    }
  },
})
