// One pass of the program, what happens beside it, and the wake-ups it sends.

import { idempotencyKey } from '../../../src/core/execution.ts'
import { formatPrice, price } from '../../../src/core/money.ts'
import { Problem } from '../../../src/core/problem.ts'
import { formatInstant, plus } from '../../../src/core/time.ts'
import { payloadOf } from '../../../src/core/webhook.ts'
import { type PassReport, rehearsePass, runPass } from '../../../src/engine/pass.ts'
import type { Store } from '../../../src/store/store.ts'
import type { Delivery } from '../../../src/webhook/deliver.ts'
import { wakePartners } from '../../../src/webhook/deliver.ts'
import type { Deed } from '../request.ts'
import type { FiredSeen, PassSeen } from './observed.ts'
import type { Parts } from './system.ts'

type PassDeed = Extract<Deed, { do: 'pass' }>

export async function runOnePass(parts: Parts, deed: PassDeed): Promise<PassSeen> {
  const { store, machine, call } = parts
  const seen: PassSeen = {
    meanwhile: [],
    report: null,
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
  const report = await refusedAsNull(
    runPass({
      ...options,
      observe: async () => {
        if (deed.isOverlapped) {
          const other = await runPass({ ...options, observe: async () => ({ price: null, told: 'none' }) })
          seen.overlap = other === null ? 'skipped' : 'ran'
        }
        for (const request of deed.meanwhile) seen.meanwhile.push(await call(request))
        return {
          price: deed.price === null ? null : { price: price(deed.price), source: 'simulation' },
          told,
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

async function refusedAsNull(pass: Promise<PassReport | null>): Promise<PassReport | null> {
  try {
    const report = await pass
    if (report === null) throw new Error('the pass was skipped, though no other ran')
    return report
  } catch (error) {
    if (error instanceof Problem && error.code === 'clock_disputed') return null
    throw error
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
  { report, seen }: { report: PassReport; seen: PassSeen },
) {
  const deliver = async ({ webhook: _, ...wakeUp }: Delivery) => {
    const tenant = `${wakeUp.tenant.partnerSlug}/${wakeUp.tenant.environment}`
    seen.payloads.push({ tenant, body: JSON.parse(payloadOf(wakeUp)) })
    const receiver = deed.receivers[tenant] ?? 'takes'
    if (receiver === 'takes') return { statusCode: 204, reason: null }
    if (receiver === 'fails') return { statusCode: 500, reason: 'HTTP 500' }
    if (deed.hanging?.tenant === tenant) seen.hanging = await call(deed.hanging.call)
    return { statusCode: null, reason: 'no answer' }
  }
  const warn = (message: string, fields: object) => {
    if ('err' in fields) throw new Error(message, { cause: fields.err })
  }
  return wakePartners(
    { passId: report.passId, executionsCreated: report.executionsCreated },
    { store, deliver: async () => deliver, warn },
  )
}

/** What a pass would fire now. */
export async function rehearse({ store, machine }: Parts, usd: string | null): Promise<string[]> {
  const seen = usd === null ? null : { price: price(usd), source: 'simulation' }
  const { fired } = await rehearsePass({
    store,
    machine,
    observe: async () => ({ price: seen, told: 'none' }),
  })
  return fired.map(
    ({ tenant: { partnerSlug, environment }, partnerPlanId, tranche: { amount, trigger } }) =>
      `${partnerSlug}/${environment} ${partnerPlanId} ${amount} ${trigger}`,
  )
}
