// All that the program has on record, line by line, read through the store.

import { idempotencyKey } from '../../../src/core/execution.ts'
import { type Instant, formatInstant as iso } from '../../../src/core/instant.ts'
import { isUsable } from '../../../src/core/key.ts'
import type { Tenant } from '../../../src/core/partner.ts'
import { isFill, type Report } from '../../../src/core/report.ts'
import type { Store } from '../../../src/store/store.ts'
import type { Record_ as Lines } from './observed.ts'

const ALL = { after: null, limit: 1_000_000 }
const EVERYBODY = { slug: null, environment: null }

const line = (...cells: (string | number | bigint | boolean | null)[]): string => cells.join(' | ')
const isoOrNull = (at: Instant | null): string | null => (at === null ? null : iso(at))
const nameOf = ({ partnerSlug, environment }: Tenant): string => `${partnerSlug}/${environment}`

function reported(report: Report): string {
  const { partnerOrderId, status, executedAt } = report
  const when = isoOrNull(executedAt)
  if (!isFill(report)) return line(partnerOrderId, status, when, 0n, 0n, 0n, null, report.failureReason)
  const { usdAmount, btcAmount, executionPrice, partnerFee } = report
  return line(partnerOrderId, status, when, usdAmount, btcAmount, executionPrice, partnerFee, null)
}

export async function readRecord(store: Store): Promise<Lines> {
  const lines: Lines = { users: [], plans: [], windows: [], executions: [], late: [], webhooks: [], keys: [] }
  for (const tenant of await store.listTenants(EVERYBODY, null)) {
    await readUsers(store, tenant, lines)
    const webhook = await store.findWebhook(tenant)
    if (!webhook) continue
    const { url, status, createdAt, updatedAt, lastDeliveredAt, lastStatusCode, consecutiveFailures } =
      webhook
    const dates = line(iso(createdAt), iso(updatedAt), isoOrNull(lastDeliveredAt))
    lines.webhooks.push(line(nameOf(tenant), url, status, dates, lastStatusCode, consecutiveFailures))
  }
  await readPlans(store, lines)
  await readExecutions(store, lines)
  await readLate(store, lines)
  await readKeys(store, lines)
  for (const of of Object.values(lines)) of.sort()
  return lines
}

async function readUsers(store: Store, tenant: Tenant, lines: Lines): Promise<void> {
  for (const user of await store.listUsers(tenant, ALL)) {
    const { partnerUserId, email, authProvider, consentVersion, consentTimestamp, status } = user
    const dates = line(iso(user.createdAt), iso(user.updatedAt))
    const consent = line(consentVersion, iso(consentTimestamp))
    lines.users.push(line(nameOf(tenant), partnerUserId, email, authProvider, consent, status, dates))
  }
}

async function readPlans(store: Store, lines: Lines): Promise<void> {
  const names = new Set((await store.listPlans(EVERYBODY, ALL)).map(({ partnerPlanId }) => partnerPlanId))
  for (const name of names) {
    for (const plan of await store.findPlans(name)) {
      const { amount, frequency, smartTimingEnabled, startDate, status, createdAt, updatedAt } = plan
      const terms = line(
        amount,
        frequency,
        smartTimingEnabled,
        iso(startDate),
        status,
        iso(createdAt),
        iso(updatedAt),
      )
      const place = line(nameOf(plan.tenant), name)
      lines.plans.push(line(place, plan.partnerUserId, terms))
      for (const { start, end, budget, reserved, spent, excess, released, closed } of plan.windows) {
        const money = line(budget, reserved, spent, excess, released)
        const fate = closed ? line(iso(closed.at), closed.reason) : 'current'
        lines.windows.push(line(place, iso(start), iso(end), money, fate))
      }
    }
  }
}

async function readExecutions(store: Store, lines: Lines): Promise<void> {
  const filter = { ...EVERYBODY, status: null, stuck: false }
  for (const execution of await store.listExecutions(filter, ALL)) {
    const { tenant, executionId, amount, createdAt, status } = execution
    const lease = line(
      execution.deliveredCount,
      isoOrNull(execution.leaseExpiresAt),
      isoOrNull(execution.cancelledAt),
    )
    // What has neither a trade nor an adjustment needs no second look.
    const isSettled = status !== 'pending' && status !== 'sent'
    const found = isSettled ? await store.findExecution(executionId) : null
    const trade = found?.trade
    const fate = trade ? line(reported(trade.report), iso(trade.recordedAt)) : null
    const corrections = (found?.adjustments ?? []).map((one) =>
      line(one.adjustmentId, one.usd, one.btc, iso(one.recordedAt), one.partnerOrderId),
    )
    const key = idempotencyKey(execution, iso)
    lines.executions.push(
      line(
        nameOf(tenant),
        executionId,
        key,
        amount,
        iso(createdAt),
        status,
        lease,
        fate,
        corrections.join(';'),
      ),
    )
  }
}

async function readLate(store: Store, lines: Lines): Promise<void> {
  for (const late of await store.listLateFills(ALL)) {
    const { reportId, execution, report, reason, receivedAt, acceptedAt, decidedAt, unkept } = late
    const state = line(reason, iso(receivedAt), acceptedAt !== null, decidedAt !== null, unkept)
    lines.late.push(line(reportId, execution.executionId, reported(report), state))
  }
}

async function readKeys(store: Store, lines: Lines): Promise<void> {
  const { now } = await store.readClock()
  for (const { partnerSlug } of await store.listPartners()) {
    for (const key of await store.listKeys(partnerSlug)) {
      const { tenant, createdAt, expiresAt, revokedAt } = key
      const dates = line(iso(createdAt), isoOrNull(expiresAt), isoOrNull(revokedAt))
      lines.keys.push(line(nameOf(tenant), dates, isUsable(key, now)))
    }
  }
}
