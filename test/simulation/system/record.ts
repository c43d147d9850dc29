// The whole record of the program, line by line, read through the store.

import { AsyncLocalStorage } from 'node:async_hooks'
import type { ReportKind } from '../../../src/billing/columns.ts'
import { csvHeader, csvRow } from '../../../src/billing/csv.ts'
import { EXPORTS } from '../../../src/billing/export.ts'
import { isFill, type Report } from '../../../src/core/confirmation.ts'
import { idempotencyKey } from '../../../src/core/execution.ts'
import { isUsable } from '../../../src/core/key.ts'
import { type FixedPeriod, periodOf } from '../../../src/core/month.ts'
import type { Tenant } from '../../../src/core/partner.ts'
import { type Instant, formatInstant as iso } from '../../../src/core/time.ts'
import type { Schedule } from '../../../src/core/window.ts'
import type { Store } from '../../../src/store/store.ts'
import { type Chance, chanceOf } from '../chance.ts'
import { emptyRecord, type Lines, line } from '../observed.ts'

const ALL = { after: null, limit: 1_000_000 }
const EVERYBODY = { slug: null, environment: null }

const isoOrNull = (at: Instant | null): string | null => (at === null ? null : iso(at))
const nameOf = ({ partnerSlug, environment }: Tenant): string => `${partnerSlug}/${environment}`

export async function readRecord(store: Store): Promise<Lines> {
  const lines = emptyRecord()
  await readHouse(store, lines)
  for (const tenant of await store.listTenants(EVERYBODY, null)) await readTenant(store, tenant, lines)
  await readPlans(store, lines)
  await readExecutions(store, lines)
  for (const late of await store.listLateFills(ALL)) {
    const { reportId, executionId, report, reason, receivedAt, acceptedAt, decidedAt, unkept } = late
    const decision = line(reason, iso(receivedAt), acceptedAt !== null, decidedAt !== null, unkept)
    lines.late.push(line(reportId, executionId, reported(report), decision))
  }
  for (const of of Object.values(lines)) of.sort()
  return lines
}

async function readHouse(store: Store, lines: Lines): Promise<void> {
  const { now, standing } = await store.readClock()
  lines.clock.push(line(iso(now), standing && line(iso(standing.clockAt), iso(standing.witness.at))))
  for (const { partnerSlug, status, held, minTranche, createdAt } of await store.listPartners()) {
    const last = await store.findLastMinimum(partnerSlug, iso(now).slice(0, 7))
    lines.partners.push(line(partnerSlug, status, held, minTranche, iso(createdAt), last))
    for (const key of await store.listKeys(partnerSlug)) {
      const dates = line(iso(key.createdAt), isoOrNull(key.expiresAt), isoOrNull(key.revokedAt))
      lines.keys.push(line(nameOf(key.tenant), dates, isUsable(key, now)))
    }
  }
  for (const tier of await store.listTiers()) {
    const { name, fromMonth, minVolume, rateBps, perActiveUser, monthlyMinimum } = tier
    lines.tiers.push(line(name, fromMonth, minVolume, rateBps, perActiveUser, monthlyMinimum))
  }
  lines.audit.push(...(await store.listAudit(ALL)).map(({ at }) => iso(at)))
  for (const { at, finishedAt } of await store.listPassesAfter(0)) {
    lines.passes.push(line(iso(at), finishedAt !== null))
  }
  for (const { at, price } of await store.listPrices(ALL)) lines.prices.push(line(iso(at), price))
}

async function readTenant(store: Store, tenant: Tenant, lines: Lines): Promise<void> {
  const name = nameOf(tenant)
  for (const { partnerUserId } of await store.listUsers(tenant, ALL)) {
    const user = await store.findUser(tenant, partnerUserId)
    if (!user) throw new Error(`user ${partnerUserId} is listed and not found`)
    const { email, authProvider, consentVersion, consentTimestamp, status } = user
    const dates = line(iso(user.createdAt), iso(user.updatedAt))
    const consents = user.consents.map((one) => `${one.version} ${iso(one.timestamp)} ${iso(one.receivedAt)}`)
    const consent = line(consentVersion, iso(consentTimestamp), consents.sort().join(';'))
    lines.users.push(line(name, partnerUserId, email, authProvider, consent, status, dates))
  }
  for (const { endedAt, count, statusCode, reason } of await store.listDeliveries(tenant))
    lines.deliveries.push(line(name, iso(endedAt), count, statusCode, reason))
  const webhook = await store.findWebhook(tenant)
  if (!webhook) return
  const { url, status, createdAt, updatedAt, lastDeliveredAt, lastStatusCode, lastFailure } = webhook
  const failed = lastFailure && `${iso(lastFailure.at)} ${lastFailure.reason}`
  const dates = line(iso(createdAt), iso(updatedAt), isoOrNull(lastDeliveredAt))
  lines.webhooks.push(line(name, url, status, dates, lastStatusCode, webhook.consecutiveFailures, failed))
}

async function readPlans(store: Store, lines: Lines): Promise<void> {
  const names = new Set((await store.listPlans(EVERYBODY, ALL)).map(({ partnerPlanId }) => partnerPlanId))
  for (const name of names) {
    for (const plan of await store.findPlans(name)) {
      const { amount, frequency, smartTimingEnabled, startDate, status, createdAt, updatedAt } = plan
      const dates = line(iso(createdAt), iso(updatedAt))
      const terms = line(amount, frequency, smartTimingEnabled, iso(startDate), status, dates)
      const place = line(nameOf(plan.tenant), name)
      lines.plans.push(line(place, plan.partnerUserId, terms))
      for (const { start, end, budget, reserved, spent, excess, released, closed } of plan.windows) {
        const money = line(budget, reserved, spent, excess, released)
        const fate = closed ? line(iso(closed.at), closed.reason) : 'current'
        lines.windows.push(line(place, iso(start), iso(end), money, fate))
      }
      if (plan.schedule) lines.schedules.push(line(place, scheduleLine(plan.schedule)))
    }
  }
}

function scheduleLine(schedule: Schedule): string {
  const { windowStart, floor, trancheIndex, layout, slot, reference, nextRunAt, limitPrice, clockAt } =
    schedule
  const units = layout && line(layout.slots, layout.unitsPerSlot, layout.unitsFired)
  const waits = line(iso(nextRunAt), limitPrice !== null, isoOrNull(clockAt), reference?.price ?? null)
  const extras = line(schedule.extrasLeft, iso(schedule.nextExtraAt))
  return line(iso(windowStart), floor, trancheIndex, units, slot, waits, extras)
}

async function readExecutions(store: Store, lines: Lines): Promise<void> {
  for (const one of await store.listExecutions({ ...EVERYBODY, status: null, stuck: false }, ALL)) {
    const { tenant, executionId, amount, createdAt, status, deliveredCount } = one
    const lease = line(deliveredCount, isoOrNull(one.leaseExpiresAt), isoOrNull(one.cancelledAt))
    // An open execution has neither a trade nor an adjustment.
    const isOpen = status === 'pending' || status === 'sent'
    const found = isOpen ? null : await store.findExecution(executionId)
    const trade = found?.trade
    const fate = trade ? line(reported(trade.report), iso(trade.recordedAt)) : null
    const corrections = (found?.adjustments ?? []).map(
      ({ usd, btc, recordedAt, partnerOrderId: order, fill }) =>
        line(usd, btc, iso(recordedAt), order, fill?.partnerFee ?? null, fill?.executionPrice ?? null),
    )
    const key = idempotencyKey(one, iso)
    const named = line(nameOf(tenant), executionId, key, amount, one.firing.trigger, iso(createdAt))
    lines.executions.push(line(named, status, lease, fate, corrections.join(';')))
  }
}

function reported(report: Report): string {
  const { partnerOrderId, status, executedAt } = report
  const when = isoOrNull(executedAt)
  if (!isFill(report)) return line(partnerOrderId, status, when, 0n, 0n, 0n, null, report.failureReason)
  const { usdAmount, btcAmount, executionPrice, partnerFee } = report
  return line(partnerOrderId, status, when, usdAmount, btcAmount, executionPrice, partnerFee, null)
}

// An export as the command writes it, as one text.

export async function exportText(
  store: Store,
  { month, report }: { month: string; report: ReportKind },
): Promise<string> {
  return textOf(store, await store.fixPeriod(periodOf(month), null), report)
}

/** An export of a period that is fixed already. */
export async function textOf(store: Store, period: FixedPeriod, report: ReportKind): Promise<string> {
  const filter = { slug: null, environment: null }
  const { columns, pages } = EXPORTS[report]
  let text = csvHeader(columns)
  for await (const page of pages({ store, period, filter })) {
    for (const row of page) text += csvRow(columns, row)
  }
  return text
}

// Random bytes of a seed that are equal for equal deeds, whatever runs beside them and in whatever order: two stores
// with the same calls make the same ids.

type Strands = {
  bytes: Chance['bytes']
  /** Work inside the answer draws from a generator of its own, which depends on the order of calls here. */
  strand: () => <T>(work: () => T) => T
}

/** Odd, so that no two strands of a seed are equal. */
const STEP = 0x9e3779b1

export function createStrands(seed: number): Strands {
  const own = new AsyncLocalStorage<Chance>()
  const rest = chanceOf(seed)
  let last = 0
  return {
    bytes: (count) => (own.getStore() ?? rest).bytes(count),
    strand() {
      last += 1
      const chance = chanceOf((seed + Math.imul(last, STEP)) >>> 0)
      return (work) => own.run(chance, work)
    },
  }
}
