// An operator's deeds in the program, by the store's methods and the core's decisions, as the commands do them.

import { adjust } from '../../../src/core/corrections/adjustment.ts'
import { acceptLate } from '../../../src/core/corrections/late-fill.ts'
import { cancelByHand, idempotencyKey } from '../../../src/core/execution.ts'
import { setTier } from '../../../src/core/fees.ts'
import { revoke, rotate } from '../../../src/core/key.ts'
import { btc, formatPrice, price, usd } from '../../../src/core/money.ts'
import {
  endMinimum,
  type Partner,
  setHeld,
  setMinTranche,
  setPartnerStatus,
  type Tenant,
} from '../../../src/core/partner.ts'
import { Problem } from '../../../src/core/problem.ts'
import { formatInstant, plus } from '../../../src/core/time.ts'
import { payloadOf } from '../../../src/core/webhook.ts'
import { type PassResult, rehearsePass, runPass } from '../../../src/engine/pass.ts'
import { issueKey } from '../../../src/keys.ts'
import type { AuditEntry, Store } from '../../../src/store/store.ts'
import { type Delivery, wakePartners } from '../../../src/webhook/wake-partners.ts'
import type { Deed, Lever } from '../action.ts'
import type { FiredSeen, LateSeen, News, PassSeen } from '../observed.ts'
import type { Parts } from './system.ts'

/** Levers that use the store: one of the others is a command's. */
type OfStore = Exclude<Lever, { lever: 'record' }> & { id?: string }

/** Pulls a lever. Answers the code of the refusal, or null. */
export async function pull(parts: Parts, lever: OfStore): Promise<string | null> {
  try {
    await act(parts, lever)
    return null
  } catch (error) {
    if (error instanceof Problem) return error.code
    throw error
  }
}

async function act(parts: Parts, lever: OfStore): Promise<unknown> {
  const { store, machine, secrets } = parts
  const audit = { osUser: 'simulation', action: lever.lever, subject: 'simulation', detail: {} }
  const audited = () => audit
  const ids = { executionId: lever.id ?? '', reportId: 'number' in lever ? lever.number : null }
  switch (lever.lever) {
    case 'partner':
      return store.addPartner({ partnerSlug: lever.slug, name: lever.slug }, audit)
    case 'change':
      return store.changePartner(lever.slug, (seen, now) => changed(seen, lever.to, now), audit)
    case 'key': {
      const tenant = await tenantNamed(parts, lever.tenant)
      const { record, secret } = issueKey({ tenant, label: lever.label, lifetimeMs: lever.life }, machine)
      await store.addKey(record, audit)
      secrets.set(lever.label, { keyId: record.keyId, secret })
      return
    }
    case 'rotate':
      return rotateKey(parts, lever, audit)
    case 'revoke':
      return store.changeKey(
        keyId(parts, lever.key),
        (seen, time) => ({ key: revoke(seen, time), successor: null }),
        audit,
      )
    case 'tier': {
      const { name, from, bps, volume, perUser, minimum } = lever.terms
      const terms = {
        name,
        rateBps: bps,
        fromMonth: from,
        minVolume: volume === undefined ? undefined : usd(volume),
        perActiveUser: perUser === undefined ? undefined : usd(perUser),
        monthlyMinimum: minimum === undefined ? undefined : usd(minimum),
      }
      return store.putTier((versions, now) => setTier(versions, terms, now), audited)
    }
    case 'override': {
      const { slug, tier, from } = lever
      return store.putTierOverride({ partnerSlug: slug, tierName: tier, fromMonth: from }, audit)
    }
    case 'reset':
      return store.resetSandbox(await tenantNamed(parts, lever.tenant), audit)
    case 'erase':
      return store.eraseUser(await tenantNamed(parts, lever.tenant), lever.user, audit)
    case 'bringBack':
      return bringBack(parts, lever, audit)
    case 'cancel':
      return store.cancelExecution(
        ids.executionId,
        (seen, now) => cancelByHand(seen, 'simulated', now),
        audit,
      )
    case 'accept':
      return store.acceptLateFill(ids, acceptLate, audited)
    case 'dismiss':
      return store.dismissLateFills(ids, audited)
    case 'adjust': {
      const right = { usd: usd(lever.usd), btc: btc(lever.btc), reason: 'simulated' }
      return store.adjustTrade(ids.executionId, (seen, now) => adjust(seen, right, now), audited)
    }
  }
}

async function bringBack(
  { store }: Parts,
  { tenant, plan: name }: Extract<Lever, { lever: 'bringBack' }>,
  audit: AuditEntry,
): Promise<void> {
  const named = await store.findPlans(name)
  const plan = named.find((one) => `${one.tenant.partnerSlug}/${one.tenant.environment}` === tenant)
  if (plan) await store.bringBack(plan.planId, () => audit)
}

async function rotateKey(
  { store, secrets, machine }: Parts,
  { key, label, overlap }: Extract<Lever, { lever: 'rotate' }>,
  audit: AuditEntry,
): Promise<void> {
  let issued: { keyId: string; secret: string } | null = null
  await store.changeKey(
    keyId({ secrets }, key),
    (seen, time) => {
      const { key: old, successor } = rotate(seen, overlap, time)
      const { record, secret } = issueKey(successor, machine)
      issued = { keyId: record.keyId, secret }
      return { key: old, successor: record }
    },
    audit,
  )
  if (issued) secrets.set(label, issued)
}

function changed(
  seen: Partner,
  { status, held, minTranche, lastMinimum }: Extract<Lever, { lever: 'change' }>['to'],
  now: Partner['updatedAt'],
): Partner {
  let partner = seen
  if (status) partner = setPartnerStatus(partner, status, now)
  if (lastMinimum !== undefined) partner = endMinimum(partner, lastMinimum, now)
  if (held !== undefined) partner = setHeld(partner, held, now)
  return minTranche === undefined ? partner : setMinTranche(partner, usd(minTranche), now)
}

const keyId = ({ secrets }: Pick<Parts, 'secrets'>, label: string): string =>
  secrets.get(label)?.keyId ?? label

async function tenantNamed({ store }: Parts, name: string): Promise<Tenant> {
  const [slug = '', environment] = name.split('/')
  const tenant = await store.findTenant(slug, environment === 'live' ? 'live' : 'test')
  if (!tenant) throw new Error(`there is no tenant ${name}`)
  return tenant
}

// A pass of the program, the concurrent calls, and the wake-ups it sends.

type PassDeed = Extract<Deed, { do: 'pass' }>

export async function runOnePass(parts: Parts, deed: PassDeed): Promise<PassSeen> {
  const { store, machine, call } = parts
  const seen: PassSeen = {
    meanwhile: [],
    report: null,
    refused: null,
    fired: [],
    woken: null,
    payloads: [],
    hanging: null,
    overlap: null,
  }
  const { executionId: before } = await store.readMarks()
  const options = { store, machine }
  const told =
    typeof deed.told === 'number' ? { source: 'simulation', at: plus(machine.clock(), deed.told) } : deed.told
  const report = await unlessRefused(
    seen,
    runPass({
      ...options,
      observe: async () => {
        if (deed.isOverlapped) {
          const other = await runPass({
            ...options,
            observe: async () => ({ price: null, testimony: 'none' }),
          })
          seen.overlap = other === null ? 'skipped' : 'ran'
        }
        for (const request of deed.meanwhile) seen.meanwhile.push(await call(request))
        return {
          price: deed.price === null ? null : { price: price(deed.price), source: 'simulation' },
          testimony: told,
        }
      },
    }),
  )
  if (!report) return seen
  seen.report = {
    at: formatInstant(report.at),
    price_usd: report.price === null ? null : formatPrice(report.price),
    plans_evaluated: report.plansEvaluated,
    executions_created: report.executionsCreated,
    windows_rolled: report.windowsRolled,
    plans_failed: report.failed.map(({ error }) => String(error)),
  }
  seen.fired = await firedAfter(store, before)
  seen.woken = await wakeAll(parts, deed, { report, seen })
  return seen
}

const REFUSALS = ['clock_disputed', 'database_frozen']

async function unlessRefused(seen: PassSeen, pass: Promise<PassResult | null>): Promise<PassResult | null> {
  try {
    const report = await pass
    if (report === null) throw new Error('the pass was skipped, though no other ran')
    return report
  } catch (error) {
    if (!(error instanceof Problem && REFUSALS.includes(error.code))) throw error
    seen.refused = error.code
    return null
  }
}

export async function firedAfter(store: Store, after: string | null): Promise<FiredSeen[]> {
  const filter = { slug: null, environment: null, status: null, stuck: false } as const
  const fired = await store.listExecutions(filter, { after, limit: 100_000 })
  return fired.map((one) => ({
    id: one.executionId,
    tenant: `${one.tenant.partnerSlug}/${one.tenant.environment}`,
    plan: one.partnerPlanId,
    key: idempotencyKey(one, formatInstant),
    amount: one.amount.toString(),
    trigger: one.firing.trigger,
  }))
}

async function wakeAll(
  { store, call }: Parts,
  deed: PassDeed,
  { report, seen }: { report: PassResult; seen: PassSeen },
) {
  const send = async ({ webhook: _, ...wakeUp }: Delivery) => {
    const tenant = `${wakeUp.tenant.partnerSlug}/${wakeUp.tenant.environment}`
    seen.payloads.push({ tenant, body: JSON.parse(payloadOf(wakeUp)) })
    const receiver = deed.receivers[tenant] ?? 'takes'
    if (receiver === 'takes') return { statusCode: 204, reason: null, durationMs: 5 }
    if (receiver === 'fails') return { statusCode: 500, reason: 'HTTP 500', durationMs: 5 }
    if (deed.hanging?.tenant === tenant) seen.hanging = await call(deed.hanging.call)
    return { statusCode: null, reason: 'no answer', durationMs: 5 }
  }
  const warn = (message: string, fields: object) => {
    if ('err' in fields) throw new Error(message, { cause: fields.err })
  }
  return wakePartners(
    { passId: report.passId, executionsCreated: report.executionsCreated },
    { store, send: async () => send, warn },
  )
}

/** The tranches that a pass would fire now. */
export async function rehearse({ store, machine }: Parts, usd: string | null): Promise<string[]> {
  const seen = usd === null ? null : { price: price(usd), source: 'simulation' }
  const { fired } = await rehearsePass({
    store,
    machine,
    observe: async () => ({ price: seen, testimony: 'none' }),
  })
  return fired.map(
    ({ tenant: { partnerSlug, environment }, partnerPlanId, tranche: { amount, trigger } }) =>
      `${partnerSlug}/${environment} ${partnerPlanId} ${amount} ${trigger}`,
  )
}

// Objects that the store has numbered since the last read, in the order of the numbers: only these show the order of
// simultaneous calls.

const EVERYBODY = { slug: null, environment: null }
const LIMIT = 1_000_000

/** Answers the news since the last call, or since now. */
export async function createNewsReader(store: Store): Promise<() => Promise<News>> {
  let plan: number | null = null
  let late: number | null = null
  const read = async (): Promise<News> => {
    const plans = await store.listPlans(EVERYBODY, { after: plan, limit: LIMIT })
    const kept = await lateAfter(store, late)
    plan = plans.at(-1)?.planId ?? plan
    late = kept.at(-1)?.number ?? late
    return {
      planned: plans.map(({ tenant, partnerPlanId }) => ({
        tenant: `${tenant.partnerSlug}/${tenant.environment}`,
        plan: partnerPlanId,
      })),
      late: kept,
    }
  }
  await read()
  return read
}

/** The reports stored after that one. */
export async function lateAfter(store: Store, number: number | null): Promise<LateSeen[]> {
  const kept = await store.listLateFills({ after: number, limit: LIMIT })
  return kept.map(({ reportId, executionId }) => ({ number: reportId, of: executionId }))
}
