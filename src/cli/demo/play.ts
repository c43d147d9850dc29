// Plays the story: weeks of scheduler passes against the real service, and a partner at the other end of HTTP.

import { type Instant, plus } from '../../core/instant.ts'
import type { Price } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import { runPass } from '../../engine/pass.ts'
import { createApp } from '../../http/app.ts'
import { listenOn } from '../../http/listen.ts'
import { issueKey } from '../../keys.ts'
import { silentLog } from '../../log.ts'
import { type Machine, machineAt } from '../../machine.ts'
import type { Store } from '../../store/store.ts'
import { createGuard } from '../../webhook/address-guard.ts'
import { databaseOf } from '../database.ts'
import {
  createPartner,
  type Instruction,
  type Partner,
  type Tally,
} from '../partner-sim/simulated-partner.ts'
import { createChance, syntheticPath } from '../partner-sim/synthetic-prices.ts'
import { tenantNamed } from '../shared/find-partner.ts'
import {
  CANCELLED,
  DISABLED,
  FEED_DOWN,
  isWithin,
  LENGTH_MS,
  MANNERS,
  OUTAGE,
  PASS_EVERY_MS,
  PATH_STEP_MS,
  PLANS,
  POLL_AFTER_MS,
  START,
  TAIL_MS,
  USERS,
} from './storyline.ts'

export const PARTNER = { partnerSlug: 'demo', name: 'Demo partner' }

export type DemoOptions = {
  file: string
  seed: number
  /** Called with the share of the simulated time that has passed, from 0 to 1. */
  onProgress: (share: number) => void
  /** Ends the run between two passes; everything it started is stopped before it throws. */
  signal: AbortSignal
}

export type Story = {
  seed: number
  from: Instant
  to: Instant
  /** One price a minute from `from` on; a little more than the windows, for what is settled after them. */
  path: readonly Price[]
  passes: number
  passesMissed: number
  passesWithoutPrice: number
  tally: Readonly<Tally>
}

type Stage = {
  store: Store
  machine: Machine
  setClock: (now: Instant) => void
  partner: Partner
  tenant: Tenant
  path: readonly Price[]
}

/** Runs the demonstration and hands its story and its store to `tell`, while both are still there. */
export async function runDemo<T>(
  { file, seed, onProgress, signal }: DemoOptions,
  tell: (story: Story, store: Store) => Promise<T>,
): Promise<T> {
  const { machine, setClock } = machineAt(START)
  const database = await databaseOf(file, machine)
  const store = await database.open({ create: true })
  try {
    const { tenant, key } = await addPartner(store, machine)
    const app = createApp({
      store,
      machine,
      guard: createGuard({ allow: [] }),
      log: silentLog,
      rateLimit: null,
    })
    const listener = await listenOn(app, { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid })
    try {
      const path = syntheticPath(seed, (LENGTH_MS + TAIL_MS) / PATH_STEP_MS)
      const quote = () => priceAt(path, machine.clock())
      const chance = createChance(seed, 'partner')
      const partner = createPartner({ url: listener.url, key, quote, chance, manners: MANNERS })
      const stage = { store, machine, setClock, partner, tenant, path }
      await enrol(partner)
      const passes = await playWeeks(stage, onProgress, signal)
      await settleRest(stage)
      return await tell(
        { seed, from: START, to: plus(START, LENGTH_MS), path, ...passes, tally: partner.tally },
        store,
      )
    } finally {
      await listener.close()
    }
  } finally {
    await store.close()
  }
}

async function addPartner(store: Store, machine: Machine): Promise<{ tenant: Tenant; key: string }> {
  const audit = { osUser: machine.osUser(), action: 'demo', subject: PARTNER.partnerSlug, detail: {} }
  await store.addPartner(PARTNER, audit)
  const tenant = await tenantNamed(store, PARTNER.partnerSlug, 'test')
  const { record, secret } = issueKey({ tenant, label: 'demo', lifetimeMs: null }, machine)
  await store.addKey(record, audit)
  return { tenant, key: secret }
}

async function enrol(partner: Partner): Promise<void> {
  for (const user of USERS) {
    await partner.call('POST', '/users', {
      partner_user_id: user,
      consent_accepted: true,
      consent_version: 'demo-1',
      consent_timestamp: '2026-01-04T12:00:00Z',
    })
  }
  for (const { plan } of PLANS) await partner.call('POST', '/plans', planBody(plan))
}

function planBody(name: string): Record<string, string> {
  const scripted = PLANS.find(({ plan }) => plan === name)
  if (!scripted) throw new Error(`no plan ${name} in the script`)
  const { plan, user, amountUsd, frequency } = scripted
  return { partner_user_id: user, partner_plan_id: plan, amount_usd: amountUsd, frequency }
}

async function playWeeks(stage: Stage, onProgress: (share: number) => void, signal: AbortSignal) {
  const { store, machine, setClock, partner, path } = stage
  const counts = { passes: 0, passesMissed: 0, passesWithoutPrice: 0 }
  let userDisabled = false
  let planCancelled = false
  for (let elapsed = 0; elapsed < LENGTH_MS; elapsed += PASS_EVERY_MS) {
    signal.throwIfAborted()
    onProgress(elapsed / LENGTH_MS)
    const at = plus(START, elapsed)
    setClock(at)
    if (isWithin(OUTAGE, at)) counts.passesMissed += 1
    else {
      const feedDown = isWithin(FEED_DOWN, at)
      const price = feedDown ? null : { price: priceAt(path, at), source: 'synthetic' }
      const observe = async () => ({ price, told: 'none' as const })
      await runPass({ store, machine, observe })
      counts.passes += 1
      if (feedDown) counts.passesWithoutPrice += 1
    }

    setClock(plus(at, POLL_AFTER_MS))
    if (!userDisabled && at >= DISABLED.from && (await hasPending(stage, DISABLED.plan))) {
      await partner.call('PATCH', `/users/${DISABLED.user}`, { status: 'disabled' })
      userDisabled = true
    }
    const due = await partner.poll()
    if (!planCancelled && at >= CANCELLED.from && isAmong(due, CANCELLED.plan)) {
      // Between the poll and the report: the order is on its way when the customer ends the plan.
      await partner.call('POST', '/plans', { ...planBody(CANCELLED.plan), status: 'cancelled' })
      planCancelled = true
    }
    await partner.work(due)
  }
  return counts
}

/** After the last pass, the partner goes on polling until it has answered everything that it was given. */
async function settleRest({ setClock, partner }: Stage): Promise<void> {
  for (let elapsed = LENGTH_MS; elapsed < LENGTH_MS + TAIL_MS; elapsed += PASS_EVERY_MS) {
    setClock(plus(START, elapsed))
    const due = await partner.poll()
    if (due.length === 0) return
    await partner.work(due)
  }
}

async function hasPending({ store, tenant }: Stage, plan: string): Promise<boolean> {
  const filter = {
    slug: tenant.partnerSlug,
    environment: tenant.environment,
    status: 'pending' as const,
    stuck: false,
  }
  const pending = await store.listExecutions(filter, { after: null, limit: 100 })
  return pending.some(({ partnerPlanId }) => partnerPlanId === plan)
}

const isAmong = (due: readonly Instruction[], plan: string): boolean =>
  due.some(({ partner_plan_id }) => partner_plan_id === plan)

function priceAt(path: readonly Price[], at: Instant): Price {
  const price = path[Math.floor((at - START) / PATH_STEP_MS)]
  if (price === undefined) throw new Error('the synthetic path is shorter than the story')
  return price
}
