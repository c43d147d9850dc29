// What the model answers to a call: who is asking, then what of it.

import type { Call } from '../action.ts'
import { executionOf } from '../request.ts'
import { ANY_TEXT, type Expected, ok, refused } from './answer.ts'
import { entriesWithin, entryJson, ownerJson } from './book.ts'
import { confirm, getDue } from './executions.ts'
import { isUsable } from './levers.ts'
import { bill, fix, summaryOf, totalsOf, userLineOf } from './months.ts'
import { postPlan } from './plans.ts'
import type { State, Tenant } from './state.ts'
import { patchUser, postUser } from './users.ts'
import { place, reportOf } from './venue.ts'
import { deleteWebhook, getWebhook, postWebhook } from './webhooks.ts'

/** Answers a call and enters what it changes. A walk through pages is answered page by page. */
export function answer(state: State, call: Call): Expected[] {
  const key = state.keys.get(call.key)
  if (!key || key.isLost || !isUsable(state, key)) return [refused(401, 'Invalid API key.')]
  const { tenant } = key
  if (tenant.partner.status !== 'active') return [refused(403, 'Partner is not active.')]
  if (call.route === 'users') return userPages(state, tenant, call)
  return call.route === 'trades' ? tradePages(state, tenant, call) : [answerTo(state, tenant, call)]
}

type Paged = { month: string; limit: number }

function answerTo(
  state: State,
  tenant: Tenant,
  call: Exclude<Call, { route: 'users' | 'trades' }>,
): Expected {
  const { partner, environment } = tenant
  switch (call.route) {
    case 'me':
      return ok({
        partner_slug: partner.slug,
        partner_name: partner.slug,
        status: partner.status,
        environment,
      })
    case 'due':
      return getDue(state, tenant)
    case 'user':
      return postUser(state, tenant, call.body)
    case 'setUser':
      return patchUser(state, tenant, call.user, call.status)
    case 'plan':
      return postPlan(state, tenant, call.body)
    case 'confirm': {
      const id = typeof call.of === 'string' ? call.of : executionOf(state, call.of).id
      return confirm(state, tenant, id, call.body)
    }
    case 'settle': {
      const execution = executionOf(state, call.of)
      return confirm(state, tenant, execution.id, reportOf(place(state, execution, call.terms)))
    }
    case 'hook':
      return postWebhook(state, tenant, call.url)
    case 'webhook':
      return getWebhook(tenant)
    case 'unhook':
      return deleteWebhook(tenant)
    case 'month':
      return ok(summaryOf(bill(state, tenant, fix(state, call.month, tenant))))
  }
}

/** Every entry of a month, as the export of it shows them. */
function tradePages(state: State, tenant: Tenant, { month, limit }: Paged): Expected[] {
  const pages: Expected[] = []
  for (let from = 0; ; from += limit) {
    const period = fix(state, month, tenant)
    const entries = entriesWithin(tenant.executions, period)
    const isLast = entries.length <= from + limit
    pages.push(
      ok({
        ...ownerJson(tenant),
        month,
        final: period.final,
        trades: entries.slice(from, from + limit).map(entryJson),
        next_cursor: isLast ? null : ANY_TEXT,
      }),
    )
    if (isLast) return pages
  }
}

function userPages(state: State, tenant: Tenant, { month, limit }: Paged): Expected[] {
  const { partner, environment } = tenant
  const pages: Expected[] = []
  let from = 0
  for (;;) {
    const billed = bill(state, tenant, fix(state, month, tenant))
    const users = billed.users.slice(from, from + limit)
    from += limit
    pages.push(
      ok({
        partner_slug: partner.slug,
        environment,
        month,
        users: users.map(userLineOf),
        totals: totalsOf(billed),
        next_cursor: from < billed.users.length ? ANY_TEXT : null,
      }),
    )
    if (from >= billed.users.length) return pages
  }
}
