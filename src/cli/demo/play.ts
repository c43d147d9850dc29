// The demonstration: its storyline, and how it is played. Weeks of scheduler passes run against the real service, with
// a partner at the other end of HTTP.

import type { Price } from '../../core/money.ts'
import { assert } from '../../core/problem.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, midnightOf, plus } from '../../core/time.ts'
import { runPass } from '../../engine/pass.ts'
import { createApp } from '../../http/app.ts'
import { listenOn } from '../../http/listen.ts'
import { issueKey } from '../../keys.ts'
import { silentLog } from '../../log.ts'
import { type Machine, machineAt } from '../../machine.ts'
import type { Store } from '../../store/store.ts'
import { createGuard } from '../../webhook/address-guard.ts'
import { tenantNamed } from '../command.ts'
import { databaseOf, type Streams } from '../context.ts'
import { createProgress } from '../terminal.ts'
import { createChance, createPartner, type Partner, syntheticPath, type Tally } from './simulated-partner.ts'
// The storyline: the users, their plans and the incidents.

/** A fixed Monday, so that the same seed gives the same story on every day. */
export const START = midnightOf(2026, 1, 5)
export const WEEKS = 4
export const DAYS = 7 * WEEKS
export const END = plus(START, DAYS * DAY_MS)
/** Simulated time between two scheduler passes: each is a commit that waits for the disk, so not too many. */
export const PASS_EVERY_MS = 30 * MINUTE_MS
/** The partner looks for work this long after each pass. */
const POLL_AFTER_MS = MINUTE_MS
/** The synthetic path has a price this often. */
export const PATH_STEP_MS = MINUTE_MS
/** Time after the last window in which the partner confirms what is still open. */
const TAIL_MS = 6 * HOUR_MS

const USERS = ['ana', 'ben', 'chloe', 'dan', 'eva'] as const

const planOf = (user: (typeof USERS)[number], name: string, amount_usd: string, frequency: string) =>
  ({ partner_user_id: user, partner_plan_id: `${user}-${name}`, amount_usd, frequency }) as const

const EVAS = planOf('eva', '2weeks', '500.00', 'bi-weekly')

const PLANS = [
  planOf('ana', 'daily', '60.00', 'daily'),
  planOf('ana', 'week', '350.00', 'weekly'),
  planOf('ben', 'daily', '12.50', 'daily'),
  planOf('ben', '2weeks', '1400.00', 'bi-weekly'),
  // Less than the smallest tranche: bought in one piece.
  planOf('chloe', 'tiny', '3.00', 'daily'),
  planOf('dan', 'week', '100.00', 'weekly'),
  EVAS,
]

/** One plan is cancelled and one user disabled, the first time after `from` that the plan has an open execution. */
const CANCELLED = { plan: EVAS, from: START + 9 * DAY_MS }
const DISABLED = { user: 'dan', plan: 'dan-week', from: START + 16 * DAY_MS }

/** How often the partner does not simply fill an order, and how often the answer to its report is lost. */
const MANNERS = { partial: 0.05, failed: 0.03, silent: 0.03, answerLost: 0.05 }

/** Cron does not run: for longer than a daily plan's slot of eight hours. */
const OUTAGE = { from: START + 8 * DAY_MS + 7 * HOUR_MS, to: START + 8 * DAY_MS + 17 * HOUR_MS }
/** The price feed does not answer: tranches go by the clock. */
const FEED_DOWN = { from: START + 15 * DAY_MS, to: START + 16 * DAY_MS }

const isWithin = (span: typeof OUTAGE, at: Instant): boolean => span.from <= at && at < span.to

export type Story = {
  seed: number
  /** One price a minute, for a little longer than the windows, because some orders are settled after them. */
  path: readonly Price[]
  scheduler: { passes: number; passes_missed: number; passes_without_price: number }
  tally: Readonly<Tally>
}

/** Everything is stopped before it throws; `signal` ends it between two passes. */
type Options = { file: string; seed: number; streams: Streams; signal: AbortSignal }

/** Plays the story, and passes it and its store to `tell` while both still exist. */
export async function playStory<T>(
  { file, seed, streams, signal }: Options,
  tell: (story: Story, store: Store) => Promise<T>,
): Promise<T> {
  const { machine, setClock } = machineAt(START)
  const store = await (await databaseOf(file, machine)).open({ create: true })
  try {
    const key = await addPartner(store, machine)
    const app = createApp({
      store,
      machine,
      guard: createGuard({ allow: [] }),
      send: async () => ({ statusCode: null, reason: 'a demonstration sends nothing', durationMs: 0 }),
      log: silentLog,
      rateLimit: null,
    })
    const listener = await listenOn(app, { host: '127.0.0.1', port: 0, tls: null, uuid: machine.uuid })
    const day = (share: number) => `day ${Math.min(DAYS, Math.floor(share * DAYS) + 1)} of ${DAYS}`
    const progress = createProgress(streams, day)
    try {
      const path = syntheticPath(seed, (END + TAIL_MS - START) / PATH_STEP_MS)
      const quote = () => priceAt(path, machine.clock())
      const chance = createChance(seed, 'partner')
      const partner = createPartner({ url: listener.url, key, quote, chance, manners: MANNERS })
      await enrol(partner)
      const stage = { store, machine, setClock, partner, path }
      const scheduler = await playWeeks(stage, (at) => {
        signal.throwIfAborted()
        progress.show((at - START) / (END - START))
      })
      await settleRest(stage)
      return await tell({ seed, path, scheduler, tally: partner.tally }, store)
    } finally {
      progress.clear()
      await listener.close()
    }
  } finally {
    await store.close()
  }
}

async function addPartner(store: Store, machine: Machine): Promise<string> {
  const partner = { partnerSlug: 'demo', name: 'Demo partner' }
  const audit = { osUser: machine.osUser(), action: 'demo', subject: partner.partnerSlug, detail: {} }
  await store.addPartner(partner, audit)
  const tenant = await tenantNamed(store, partner.partnerSlug, 'test')
  const { record, secret } = issueKey({ tenant, label: 'demo', lifetimeMs: null }, machine)
  await store.addKey(record, audit)
  return secret
}

async function enrol(partner: Partner): Promise<void> {
  const consent = { consent_version: 'demo-1', consent_timestamp: '2026-01-04T12:00:00Z' }
  for (const user of USERS)
    await partner.call('POST', '/users', { partner_user_id: user, consent_accepted: true, ...consent })
  for (const plan of PLANS) await partner.call('POST', '/plans', plan)
}

type Stage = ReturnType<typeof machineAt> & { store: Store; partner: Partner; path: readonly Price[] }

/** Calls `begin` before each pass. */
async function playWeeks(stage: Stage, begin: (at: Instant) => void): Promise<Story['scheduler']> {
  const { store, machine, setClock, partner, path } = stage
  const counts = { passes: 0, passes_missed: 0, passes_without_price: 0 }
  let userDisabled = false
  let planCancelled = false
  for (let at = START; at < END; at = plus(at, PASS_EVERY_MS)) {
    begin(at)
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
    if (!userDisabled && at >= DISABLED.from && (await hasPending(store, DISABLED.plan))) {
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

/** After the last pass, the partner polls until it has confirmed all it was given. */
async function settleRest({ setClock, partner }: Stage): Promise<void> {
  for (let at = END; at < END + TAIL_MS; at = plus(at, PASS_EVERY_MS)) {
    setClock(at)
    const due = await partner.poll()
    if (due.length === 0) return
    await partner.work(due)
  }
}

async function hasPending(store: Store, plan: string): Promise<boolean> {
  const filter = { slug: null, environment: null, status: 'pending' as const, stuck: false }
  const pending = await store.listExecutions(filter, { after: null, limit: 100 })
  return pending.some(({ partnerPlanId }) => partnerPlanId === plan)
}

function priceAt(path: readonly Price[], at: Instant): Price {
  const price = path[Math.floor((at - START) / PATH_STEP_MS)]
  assert(price !== undefined, 'the synthetic path is as long as the story')
  return price
}
