// Plays the demonstration: weeks of scheduler passes against the real service, with a partner at the other end of HTTP.

import type { Price } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import { assert } from '../../core/problem.ts'
import { type Instant, plus } from '../../core/time.ts'
import { runPass } from '../../engine/pass.ts'
import { createApp } from '../../http/app.ts'
import { listenOn } from '../../http/listen.ts'
import { issueKey } from '../../keys.ts'
import { silentLog } from '../../log.ts'
import { type Machine, machineAt } from '../../machine.ts'
import type { Store } from '../../store/store.ts'
import { createGuard } from '../../webhook/address-guard.ts'
import { tenantNamed } from '../command.ts'
import { databaseOf } from '../context.ts'
import { createChance, createPartner, type Partner, syntheticPath, type Tally } from './simulated-partner.ts'
import {
  CANCELLED,
  DISABLED,
  END,
  FEED_DOWN,
  isWithin,
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
  /** One price a minute; a little longer than the windows, for what is settled after them. */
  path: readonly Price[]
  scheduler: { passes: number; passes_missed: number; passes_without_price: number }
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

/** Runs the demonstration and passes its story and its store to `tell`, while both still exist. */
export async function runDemo<T>(
  options: DemoOptions,
  tell: (story: Story, store: Store) => Promise<T>,
): Promise<T> {
  const { file, seed } = options
  const { machine, setClock } = machineAt(START)
  const store = await (await databaseOf(file, machine)).open({ create: true })
  try {
    const { tenant, key } = await addPartner(store, machine)
    const app = createApp({
      store,
      machine,
      guard: createGuard({ allow: [] }),
      deliver: async () => ({ statusCode: null, reason: 'a demonstration sends nothing', durationMs: 0 }),
      log: silentLog,
      rateLimit: null,
    })
    const listener = await listenOn(app, { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid })
    try {
      const path = syntheticPath(seed, (END + TAIL_MS - START) / PATH_STEP_MS)
      const quote = () => priceAt(path, machine.clock())
      const chance = createChance(seed, 'partner')
      const partner = createPartner({ url: listener.url, key, quote, chance, manners: MANNERS })
      const stage = { store, machine, setClock, partner, tenant, path }
      await enrol(partner)
      const scheduler = await playWeeks(stage, options)
      await settleRest(stage)
      return await tell({ seed, path, scheduler, tally: partner.tally }, store)
    } finally {
      await listener.close()
    }
  } finally {
    await store.close()
  }
}

async function addPartner(store: Store, machine: Machine): Promise<{ tenant: Tenant; key: string }> {
  const partner = { partnerSlug: 'demo', name: 'Demo partner' }
  const audit = { osUser: machine.osUser(), action: 'demo', subject: partner.partnerSlug, detail: {} }
  await store.addPartner(partner, audit)
  const tenant = await tenantNamed(store, partner.partnerSlug, 'test')
  const { record, secret } = issueKey({ tenant, label: 'demo', lifetimeMs: null }, machine)
  await store.addKey(record, audit)
  return { tenant, key: secret }
}

async function enrol(partner: Partner): Promise<void> {
  const consent = { consent_version: 'demo-1', consent_timestamp: '2026-01-04T12:00:00Z' }
  for (const user of USERS)
    await partner.call('POST', '/users', { partner_user_id: user, consent_accepted: true, ...consent })
  for (const plan of PLANS) await partner.call('POST', '/plans', plan)
}

async function playWeeks(stage: Stage, { onProgress, signal }: DemoOptions) {
  const { store, machine, setClock, partner, path } = stage
  const counts = { passes: 0, passes_missed: 0, passes_without_price: 0 }
  let userDisabled = false
  let planCancelled = false
  for (let at = START; at < END; at = plus(at, PASS_EVERY_MS)) {
    signal.throwIfAborted()
    onProgress((at - START) / (END - START))
    setClock(at)
    if (isWithin(OUTAGE, at)) counts.passes_missed += 1
    else {
      const feedDown = isWithin(FEED_DOWN, at)
      const price = feedDown ? null : { price: priceAt(path, at), source: 'synthetic' }
      await runPass({ store, machine, observe: async () => ({ price, testimony: 'none' as const }) })
      counts.passes += 1
      if (feedDown) counts.passes_without_price += 1
    }

    setClock(plus(at, POLL_AFTER_MS))
    if (!userDisabled && at >= DISABLED.from && (await hasPending(stage, DISABLED.plan))) {
      await partner.call('PATCH', `/users/${DISABLED.user}`, { status: 'disabled' })
      userDisabled = true
    }
    const due = await partner.poll()
    const { plan, from } = CANCELLED
    if (!planCancelled && at >= from && due.some((one) => one.partner_plan_id === plan.partner_plan_id)) {
      // Between the poll and the report: the order is on its way when the customer ends the plan.
      await partner.call('POST', '/plans', { ...plan, status: 'cancelled' })
      planCancelled = true
    }
    await partner.work(due)
  }
  return counts
}

/** After the last pass, the partner goes on polling until it has confirmed everything that it was given. */
async function settleRest({ setClock, partner }: Stage): Promise<void> {
  for (let at = END; at < END + TAIL_MS; at = plus(at, PASS_EVERY_MS)) {
    setClock(at)
    const due = await partner.poll()
    if (due.length === 0) return
    await partner.work(due)
  }
}

async function hasPending({ store, tenant }: Stage, plan: string): Promise<boolean> {
  const { partnerSlug: slug, environment } = tenant
  const filter = { slug, environment, status: 'pending' as const, stuck: false }
  const pending = await store.listExecutions(filter, { after: null, limit: 100 })
  return pending.some(({ partnerPlanId }) => partnerPlanId === plan)
}

function priceAt(path: readonly Price[], at: Instant): Price {
  const price = path[Math.floor((at - START) / PATH_STEP_MS)]
  assert(price !== undefined, 'the synthetic path is as long as the story')
  return price
}
