// The model's answers to calls: first the authentication, then the route.

import { type Call, executionOf } from '../action.ts'
import { emptyRecord, type Lines, line } from '../observed.ts'
import { confirm, getDue, place, reportOfOrder } from './ledger.ts'
import { isUsable } from './levers.ts'
import {
  bill,
  entriesWithin,
  entryJson,
  fix,
  lastMinimumOf,
  ownerJson,
  summaryOf,
  totalsOf,
  userLineOf,
} from './months.ts'
import {
  deleteWebhook,
  getDeliveries,
  getUser,
  getWebhook,
  patchUser,
  postPlan,
  postUser,
  postWebhook,
  testWebhook,
  userListPages,
} from './plans.ts'
import {
  type Execution,
  idempotencyKey,
  iso,
  isoOrNull,
  monthOf,
  type Plan,
  presentOf,
  type Report,
  type State,
  type Tenant,
} from './state.ts'

// The expected answer to a call: a status, and a whole body or the facts that it has to name.

export type Expected = { status: number; dueRemaining?: number; code?: string } & (
  | { body: unknown }
  /** An error in any wording: the texts that its detail must contain. */
  | { says: readonly string[] }
)

export const ok = (body: unknown): Expected => ({ status: 200, body })
export const refused = (status: number, detail: string): Expected => ({ status, body: { detail } })
export const refusedNaming = (status: number, ...says: readonly string[]): Expected => ({ status, says })

/** Answer to calls that fire, deliver or start to buy, which wait until a frozen database is resumed. */
export const FROZEN: Expected = { status: 503, code: 'service_frozen', says: [] }

/** Stands, in an expected body, for a text that only the program can know. */
export const ANY_TEXT = '<any text>'

/** Answers a call and enters its changes. A walk through pages is answered page by page. */
export function answer(state: State, call: Call): Expected[] {
  const key = state.keys.get(call.key)
  if (!key || key.isLost || !isUsable(state, key)) return [refused(401, 'Invalid API key.')]
  const { tenant } = key
  if (tenant.partner.status !== 'active') return [refused(403, 'Partner is not active.')]
  if (state.frozen && call.route === 'due') return [FROZEN]
  const answers = ANSWERS[call.route] as (state: State, tenant: Tenant, call: Call) => Expected | Expected[]
  return [answers(state, tenant, call)].flat()
}

type Answer<R> = (state: State, tenant: Tenant, call: Call & { route: R }) => Expected | Expected[]
const ANSWERS: { [R in Call['route']]: Answer<R> } = {
  me: (_, { partner: { slug, status }, environment }) =>
    ok({ partner_slug: slug, partner_name: slug, status, environment }),
  due: (state, tenant) => getDue(state, tenant),
  user: (state, tenant, { body }) => postUser(state, tenant, body),
  setUser: (state, tenant, { user, status }) => patchUser(state, tenant, user, status),
  userList: (_, tenant, { limit }) => userListPages(tenant, limit),
  userOf: (_, tenant, { user }) => getUser(tenant, user),
  plan: (state, tenant, { body }) => postPlan(state, tenant, body),
  confirm: (state, tenant, { of, body }) =>
    confirm(state, tenant, typeof of === 'string' ? of : executionOf(state, of).id, body),
  settle: (state, tenant, { of, terms }) => {
    const execution = executionOf(state, of)
    return confirm(state, tenant, execution.id, reportOfOrder(place(state, execution, terms)))
  },
  hook: (state, tenant, { url }) => postWebhook(state, tenant, url),
  webhook: (_, tenant) => getWebhook(tenant),
  unhook: (_, tenant) => deleteWebhook(tenant),
  deliveries: (_, tenant) => getDeliveries(tenant),
  testHook: (state, tenant) => testWebhook(state, tenant),
  month: (state, tenant, { month }) => ok(summaryOf(bill(state, tenant, fix(state, month, tenant)))),
  users: (state, tenant, { month, limit }) =>
    pagesOf(limit, () => {
      const billed = bill(state, tenant, fix(state, month, tenant))
      const head = { ...ownerJson(tenant), month }
      const totals = totalsOf(billed)
      return { rows: billed.users, bodyOf: (own) => ({ ...head, users: own.map(userLineOf), totals }) }
    }),
  // Every entry of a month, as its export shows them.
  trades: (state, tenant, { month, limit }) =>
    pagesOf(limit, () => {
      const period = fix(state, month, tenant)
      const head = { ...ownerJson(tenant), month, final: period.final }
      const rows = entriesWithin(tenant.executions, period)
      return { rows, bodyOf: (own) => ({ ...head, trades: own.map(entryJson) }) }
    }),
}

/** A walk through a list that is read anew for each page. `bodyOf` makes the body of a page with these rows. */
export function pagesOf<Row>(
  limit: number,
  read: () => { rows: readonly Row[]; bodyOf: (own: readonly Row[]) => object },
): Expected[] {
  const pages: Expected[] = []
  for (let from = 0; ; from += limit) {
    const { rows, bodyOf } = read()
    const isLast = rows.length <= from + limit
    pages.push(ok({ ...bodyOf(rows.slice(from, from + limit)), next_cursor: isLast ? null : ANY_TEXT }))
    if (isLast) return pages
  }
}

// The whole record of the model, line by line, as the program's own record is read.

export function recordOf(state: State): Lines {
  const lines = emptyRecord()
  for (const { slug, status, held, minTranche, createdAt } of state.partners.values()) {
    const last = lastMinimumOf(state, slug, monthOf(presentOf(state)))
    lines.partners.push(line(slug, status, held, minTranche, iso(createdAt), last))
  }
  for (const key of state.keys.values()) {
    const { tenant, createdAt, expiresAt, revokedAt } = key
    const dates = line(iso(createdAt), isoOrNull(expiresAt), isoOrNull(revokedAt))
    lines.keys.push(line(tenant.name, dates, isUsable(state, key)))
  }
  for (const { name, from, minVolume, bps, perUser, minimum } of state.tiers) {
    lines.tiers.push(line(name, from, minVolume, bps, perUser, minimum))
  }
  lines.audit.push(...state.audits.map(iso))
  for (const tenant of state.tenants.values()) {
    ofTenant(tenant, lines)
    for (const plan of tenant.plans.values()) ofPlan(plan, lines)
    for (const execution of tenant.executions) ofExecution(execution, lines)
  }
  for (const { at, finished } of state.passes) lines.passes.push(line(iso(at), finished))
  for (const [at, price] of state.prices) lines.prices.push(line(iso(at), price))
  const { dispute } = state
  lines.clock.push(line(iso(presentOf(state)), dispute && line(iso(dispute.clockAt), iso(dispute.toldAt))))
  for (const of of Object.values(lines)) of.sort()
  return lines
}

function ofTenant({ name, users, webhook, deliveries }: Tenant, lines: Lines): void {
  for (const user of users.values()) {
    const { email, provider, consentVersion, consentAt, status, createdAt, updatedAt } = user
    const dates = line(iso(createdAt), iso(updatedAt))
    const consents = [...user.consents].map(([consent, at]) => `${consent} ${iso(at)}`).sort()
    const consent = line(consentVersion, iso(consentAt), consents.join(';'))
    lines.users.push(line(name, user.id, email, provider, consent, status, dates))
  }
  for (const { endedAt, count, statusCode, failure } of deliveries)
    lines.deliveries.push(line(name, iso(endedAt), count, statusCode, failure))
  if (!webhook) return
  const { url, status, createdAt, updatedAt, lastDeliveredAt, lastStatusCode, failures, lastFailure } =
    webhook
  const failed = lastFailure && `${iso(lastFailure.at)} ${lastFailure.reason}`
  const dates = line(iso(createdAt), iso(updatedAt), isoOrNull(lastDeliveredAt))
  lines.webhooks.push(line(name, url, status, dates, lastStatusCode, failures, failed))
}

function ofPlan(plan: Plan, lines: Lines): void {
  const { tenant, amount, frequency, smart, startDate, status, createdAt, updatedAt, timing } = plan
  const place = line(tenant.name, plan.id)
  const terms = line(amount, frequency, smart, iso(startDate), status, iso(createdAt), iso(updatedAt))
  lines.plans.push(line(place, plan.user.id, terms))
  for (const { start, end, budget, reserved, spent, excess, released, closed } of plan.windows) {
    const money = line(budget, reserved, spent, excess, released)
    const fate = closed ? line(iso(closed.at), closed.reason) : 'current'
    lines.windows.push(line(place, iso(start), iso(end), money, fate))
  }
  if (!timing) return
  const { window, floor, index, cut, slot, reference, nextRun, limit, clock, extras, nextExtra } = timing
  const units = cut && line(cut.slots, cut.perSlot, cut.fired)
  const waits = line(iso(nextRun), limit !== null, isoOrNull(clock), reference?.price ?? null)
  lines.schedules.push(
    line(place, iso(window.start), floor, index, units, slot, waits, extras, iso(nextExtra)),
  )
}

function ofExecution(execution: Execution, lines: Lines): void {
  const { tenant, id, amount, createdAt, status, deliveries, leasedUntil, cancelledAt } = execution
  const lease = line(deliveries, isoOrNull(leasedUntil), isoOrNull(cancelledAt))
  const { trade, adjustments } = execution
  const fate = trade ? line(reported(trade.report), iso(trade.recordedAt)) : null
  const corrections = adjustments.map((one) =>
    line(one.usd, one.btc, iso(one.recordedAt), one.order, one.fee, one.price),
  )
  const named = line(tenant.name, id, idempotencyKey(execution), amount, execution.trigger, iso(createdAt))
  lines.executions.push(line(named, status, lease, fate, corrections.join(';')))
  for (const late of execution.late) {
    const { number, reason, receivedAt, accepted, decided } = late
    const decision = line(reason, iso(receivedAt), accepted, decided, execution.uncounted)
    lines.late.push(line(number, id, reported(late.report), decision))
  }
}

const reported = ({ order, status, executedAt, usd, btc, price, fee, reason }: Report): string =>
  line(order, status, isoOrNull(executedAt), usd, btc, price, fee, reason)
